-- What the area workflow makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE TABLE waybill.machines (
  machine text COLLATE "C" NOT NULL,
  entity_table text NOT NULL,
  initial_state text COLLATE "C" NOT NULL,
  rule_version integer DEFAULT 0 NOT NULL,
  rules jsonb DEFAULT '[]'::jsonb NOT NULL
);
ALTER TABLE waybill.machines ADD CONSTRAINT machines_name_format CHECK ((machine ~ '^[a-z][a-z0-9_]{0,62}$'::text));
ALTER TABLE waybill.machines ADD CONSTRAINT machines_pkey PRIMARY KEY (machine);
CREATE TRIGGER machines_10_fixed BEFORE UPDATE ON waybill.machines FOR EACH ROW WHEN ((((new.machine IS DISTINCT FROM old.machine) OR (new.entity_table IS DISTINCT FROM old.entity_table)) OR (new.initial_state IS DISTINCT FROM old.initial_state))) EXECUTE FUNCTION waybill.refuse_change('a machine keeps its table and its initial state');
GRANT SELECT ON waybill.machines TO waybill_app;
GRANT SELECT ON waybill.machines TO waybill_audit;
GRANT SELECT ON waybill.machines TO waybill_sealer;
COMMENT ON COLUMN waybill.machines.entity_table IS 'The table whose column status this machine rules.';
COMMENT ON COLUMN waybill.machines.rule_version IS 'How often the machine''s rows of valid_transitions have changed; rules is what they were made to last. Both are kept by a trigger.';

CREATE TABLE waybill.step_rules (
  machine text COLLATE "C" NOT NULL,
  rule text COLLATE "C" NOT NULL,
  to_states text[] NOT NULL
);
ALTER TABLE waybill.step_rules ADD CONSTRAINT step_rules_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines(machine);
ALTER TABLE waybill.step_rules ADD CONSTRAINT step_rules_pkey PRIMARY KEY (machine, rule);
GRANT SELECT ON waybill.step_rules TO waybill_app;
GRANT SELECT ON waybill.step_rules TO waybill_audit;
GRANT SELECT ON waybill.step_rules TO waybill_sealer;
COMMENT ON COLUMN waybill.step_rules.rule IS 'A function (tenant, id of the entity) that says what stands in the way of a step to one of these states; see waybill.add_step_rule.';

CREATE TABLE waybill.valid_transitions (
  machine text COLLATE "C" NOT NULL,
  from_state text COLLATE "C" NOT NULL,
  to_state text COLLATE "C" NOT NULL,
  roles text[] NOT NULL,
  requires_reason boolean DEFAULT false NOT NULL,
  guards text[] DEFAULT '{}'::text[] NOT NULL,
  rule_version integer DEFAULT 0 NOT NULL
);
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines(machine);
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_moves CHECK ((from_state <> to_state));
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_pkey PRIMARY KEY (machine, from_state, to_state);
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_state_format CHECK (((from_state ~ '^[a-z][a-z0-9_]{0,62}$'::text) AND (to_state ~ '^[a-z][a-z0-9_]{0,62}$'::text)));
CREATE TRIGGER valid_transitions_20_insert BEFORE INSERT ON waybill.valid_transitions FOR EACH ROW EXECUTE FUNCTION waybill.number_rule();
CREATE TRIGGER valid_transitions_20_update BEFORE UPDATE ON waybill.valid_transitions FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION waybill.number_rule();
CREATE TRIGGER valid_transitions_50_note AFTER INSERT OR DELETE OR UPDATE ON waybill.valid_transitions FOR EACH STATEMENT EXECUTE FUNCTION waybill.note_rules();
GRANT SELECT ON waybill.valid_transitions TO waybill_app;
GRANT SELECT ON waybill.valid_transitions TO waybill_audit;
GRANT SELECT ON waybill.valid_transitions TO waybill_sealer;

CREATE TABLE waybill.workflow_rules (
  tenant_id bigint NOT NULL,
  id uuid DEFAULT gen_random_uuid() NOT NULL,
  machine text COLLATE "C" NOT NULL,
  rule_version integer NOT NULL,
  rules jsonb NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE waybill.workflow_rules ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.workflow_rules ADD CONSTRAINT workflow_rules_machine_key UNIQUE (tenant_id, machine);
ALTER TABLE waybill.workflow_rules ADD CONSTRAINT workflow_rules_pkey PRIMARY KEY (tenant_id, id);
CREATE POLICY workflow_rules_tenant ON waybill.workflow_rules FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER workflow_rules_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.workflow_rules FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER workflow_rules_00_refused BEFORE DELETE OR TRUNCATE ON waybill.workflow_rules FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('what a machine allowed stays known');
CREATE TRIGGER workflow_rules_20_version_insert BEFORE INSERT ON waybill.workflow_rules FOR EACH ROW EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER workflow_rules_20_version_update BEFORE UPDATE ON waybill.workflow_rules FOR EACH ROW WHEN ((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.machine IS DISTINCT FROM old.machine)) OR (new.rule_version IS DISTINCT FROM old.rule_version)) OR (new.rules IS DISTINCT FROM old.rules)) OR (new.version IS DISTINCT FROM old.version)) OR (new.updated_at IS DISTINCT FROM old.updated_at))) EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER workflow_rules_50_record AFTER INSERT OR UPDATE ON waybill.workflow_rules FOR EACH ROW EXECUTE FUNCTION audit.record_workflow();
GRANT SELECT ON waybill.workflow_rules TO waybill_app;
GRANT SELECT ON waybill.workflow_rules TO waybill_audit;
COMMENT ON TABLE waybill.workflow_rules IS 'The rules of each machine as a tenant''s log tells of them, so that an export of the tenant alone shows which rule was in force. A copy of waybill.machines.';

CREATE OR REPLACE FUNCTION audit.record_workflow()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "TimeZone" TO 'UTC'
AS $function$
DECLARE
  v_type text := 'created';
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.version = OLD.version THEN
      RETURN NULL;
    END IF;
    v_type := 'updated';
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record('workflow_rules', 'workflow/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'workflow.' || v_type, NULL, NULL, waybill.workflow_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_workflow() TO waybill_owner;
COMMENT ON FUNCTION audit.record_workflow() IS 'Made by audit.create_recorder: appends an event for each version of an entity.';

CREATE OR REPLACE FUNCTION waybill.add_state(p_machine text, p_state text, p_transitions jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_table regclass;
  v_constraint text;
  v_states text;
BEGIN
  SELECT m.entity_table::regclass INTO v_table FROM waybill.machines m WHERE m.machine = p_machine;
  IF v_table IS NULL THEN
    RAISE EXCEPTION 'There is no machine %', p_machine USING ERRCODE = 'WB003', HINT = 'waybill.machines lists them.';
  END IF;
  INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards)
  SELECT p_machine, t.from_state, t.to_state, t.roles, coalesce(t.requires_reason, false), coalesce(t.guards, '{}')
  FROM jsonb_to_recordset(p_transitions)
    AS t(from_state text, to_state text, roles text[], requires_reason boolean, guards text[]);

  v_constraint := (SELECT c.relname FROM pg_class c WHERE c.oid = v_table) || '_status_check';
  -- What was allowed stays allowed: entities may be in a state that no transition names any more.
  SELECT string_agg(quote_literal(s.state), ', ' ORDER BY s.state) INTO v_states FROM (
    SELECT p_state AS state
    UNION SELECT m.initial_state FROM waybill.machines m WHERE m.machine = p_machine
    UNION SELECT unnest(ARRAY[t.from_state, t.to_state]) FROM waybill.valid_transitions t WHERE t.machine = p_machine
    UNION SELECT (regexp_matches(pg_get_constraintdef(c.oid), '''([a-z][a-z0-9_]*)''', 'g'))[1]
          FROM pg_constraint c WHERE c.conrelid = v_table AND c.conname = v_constraint
  ) s;
  EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %2$I CHECK (status IN (%3$s)) NOT VALID',
                 v_table, v_constraint, v_states);
  EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', v_table, v_constraint);
END
$function$;
COMMENT ON FUNCTION waybill.add_state(text,text,jsonb) IS 'For an extension''s migration: adds a state with its transitions [{from_state, to_state, roles, requires_reason?, guards?}] and rebuilds the CHECK of the machine''s table, <table>_status_check.';

CREATE OR REPLACE FUNCTION waybill.add_step_rule(p_machine text, p_rule regproc, p_to_states text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_table regclass := (SELECT m.entity_table::regclass FROM waybill.machines m WHERE m.machine = p_machine);
  v_rule name := (SELECT p.proname FROM pg_proc p WHERE p.oid = p_rule);
BEGIN
  INSERT INTO waybill.step_rules (machine, rule, to_states) VALUES (p_machine, p_rule::text, p_to_states);
  EXECUTE format($create$
CREATE FUNCTION waybill.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $ask$
DECLARE
  v_refusal jsonb;
BEGIN
  IF NEW.status <> OLD.status AND NEW.status IN (%2$s) THEN
    v_refusal := %3$s(NEW.tenant_id, NEW.id);
    IF v_refusal IS NOT NULL THEN
      PERFORM waybill.raise_refusal(v_refusal);
    END IF;
  END IF;
  RETURN NEW;
END
$ask$ $create$,
    'ask_' || v_rule, (SELECT string_agg(quote_literal(s), ', ') FROM unnest(p_to_states) s), p_rule);
  EXECUTE format('COMMENT ON FUNCTION waybill.%I IS %L', 'ask_' || v_rule, 'Made by waybill.add_step_rule.');
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION waybill.%I()',
                 (SELECT c.relname FROM pg_class c WHERE c.oid = v_table) || '_25_' || v_rule, v_table, 'ask_' || v_rule);
END
$function$;
COMMENT ON FUNCTION waybill.add_step_rule(text,regproc,text[]) IS 'Lets a function (tenant, id of the entity) say what stands in the way of a step of a machine to some states: null for nothing, or {code: SQLSTATE, message, detail?, hint?} as jsonb. The step is refused with that, and waybill.step_refusals lists it. For migrations.';

CREATE OR REPLACE FUNCTION waybill.attach_machine(p_machine text, p_fixed text[], p_rules regproc DEFAULT NULL::regproc, p_erasure_type text DEFAULT NULL::text, p_parts text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_table regclass;
  v_name text;
  v_initial text;
  v_on_insert text := '';
  v_on_update text := '';
  v_migrator name := current_user;
BEGIN
  SELECT m.entity_table::regclass, m.initial_state INTO v_table, v_initial FROM waybill.machines m WHERE m.machine = p_machine;
  IF v_table IS NULL THEN
    RAISE EXCEPTION 'There is no machine %', p_machine USING ERRCODE = 'WB003', HINT = 'INSERT it INTO waybill.machines first.';
  END IF;
  v_name := (SELECT c.relname FROM pg_class c WHERE c.oid = v_table);
  PERFORM waybill.make_status_history(p_machine, v_table);
  IF p_rules IS NOT NULL THEN
    v_on_insert := format('PERFORM %s(NEW, NULL);', p_rules);
    v_on_update := format('PERFORM %s(NEW, OLD);', p_rules);
  END IF;

  EXECUTE format($create$
CREATE FUNCTION waybill.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $guard$
DECLARE
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.status IS DISTINCT FROM %3$L OR NEW.version IS DISTINCT FROM 1 THEN
      PERFORM waybill.refuse_beginning(%2$L, NEW.id, NEW.status, NEW.version, %3$L);
    END IF;
    -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
    IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
      NEW.updated_at := clock_timestamp();
    END IF;
    NEW.transition_reason := NULL;
    %4$s
    RETURN NEW;
  END IF;

  v_reason := NEW.transition_reason;
  IF v_reason IS NOT NULL THEN
    NEW.transition_reason := NULL;
    IF waybill.is_blank(v_reason) THEN
      v_reason := NULL;
    END IF;
  END IF;
  IF NEW IS NOT DISTINCT FROM OLD THEN
    RETURN NEW;
  END IF;
  IF (%6$s) IS DISTINCT FROM (%7$s) THEN
    RAISE EXCEPTION 'UPDATE on %8$s is refused: %9$s never change' USING ERRCODE = 'WB002';
  END IF;
  IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
    PERFORM waybill.refuse_version(%2$L, OLD.id, OLD.version, NEW.version);
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  %5$s
  IF NEW.status <> OLD.status THEN
    v_rule_version := waybill.require_step(%2$L, OLD.id, OLD.status, NEW.status, v_reason IS NOT NULL);
    -- Here and not after the row, because only here the reason is at hand: it is an argument that the row doesn't keep.
    INSERT INTO waybill.%10$I (tenant_id, %11$I, seq, from_status, to_status, changed_by, changed_at, reason, request_id, rule_version)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), ''), v_rule_version
    FROM waybill.%10$I h WHERE h.tenant_id = NEW.tenant_id AND h.%11$I = NEW.id;
  END IF;
  RETURN NEW;
END
$guard$ $create$,
    'guard_' || p_machine, p_machine, v_initial, v_on_insert, v_on_update,
    (SELECT string_agg(format('NEW.%I', f), ', ') FROM unnest(p_fixed) f),
    (SELECT string_agg(format('OLD.%I', f), ', ') FROM unnest(p_fixed) f),
    v_table, array_to_string(p_fixed, ', '), p_machine || '_status_history', p_machine || '_id');
  EXECUTE format('COMMENT ON FUNCTION waybill.%I IS %L', 'guard_' || p_machine,
                 'Made by waybill.attach_machine: what may be inserted and how it may change; version, time and history of a change.');
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION waybill.%I()',
                 v_name || '_20_guard', v_table, 'guard_' || p_machine);

  EXECUTE format('GRANT SELECT ON %s TO waybill_audit', v_table);
  EXECUTE format('GRANT SELECT, INSERT ON waybill.%I TO waybill_audit', p_machine || '_status_history');
  EXECUTE format('GRANT EXECUTE ON FUNCTION waybill.%I(%s) TO waybill_audit', p_machine || '_snapshot', v_table);
  -- Events belong to waybill_audit, and so does whatever appends them.
  SET LOCAL ROLE waybill_audit;
  PERFORM audit.create_machine_recorder(p_machine, v_table, p_parts, p_erasure_type);
  EXECUTE format('SET LOCAL ROLE %I', v_migrator);
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION audit.%I()',
                 v_name || '_50_record_insert', v_table, 'record_' || p_machine);
  EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION audit.%I()',
                 v_name || '_50_record_update', v_table, 'record_' || p_machine);
END
$function$;
COMMENT ON FUNCTION waybill.attach_machine(text,text[],regproc,text,text) IS 'Puts the table of a machine under its rules: makes waybill.<machine>_status_history and the trigger functions that guard each change and record it as an event on <machine>/<id>. The table has tenant_id, id, status, version, updated_at and transition_reason; a function waybill.<machine>_snapshot(row) returning JSON text says what an event keeps. p_fixed: columns that never change. p_rules: function(new row, old row or null) that refuses what breaks a rule of several columns. p_parts, p_erasure_type: as audit.record takes them. For migrations.';

CREATE OR REPLACE FUNCTION waybill.detach_machine(p_machine text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_migrator name := current_user;
BEGIN
  EXECUTE format('DROP FUNCTION waybill.%I() CASCADE', 'guard_' || p_machine);
  SET LOCAL ROLE waybill_audit;
  EXECUTE format('DROP FUNCTION audit.%I() CASCADE', 'record_' || p_machine);
  EXECUTE format('SET LOCAL ROLE %I', v_migrator);
  EXECUTE format('DROP TABLE waybill.%I', p_machine || '_status_history');
  DELETE FROM waybill.valid_transitions t WHERE t.machine = p_machine;
  DELETE FROM waybill.step_rules r WHERE r.machine = p_machine;
  DELETE FROM waybill.machines m WHERE m.machine = p_machine;
END
$function$;
COMMENT ON FUNCTION waybill.detach_machine(text) IS 'Takes back what attach_machine made, with the machine, its rules and its history. The table stays, without rules. For migrations that go down.';

CREATE OR REPLACE FUNCTION waybill.drop_step_rule(p_machine text, p_rule regproc)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  EXECUTE format('DROP FUNCTION waybill.%I() CASCADE', 'ask_' || (SELECT p.proname FROM pg_proc p WHERE p.oid = p_rule));
  DELETE FROM waybill.step_rules r WHERE r.machine = p_machine AND r.rule = p_rule::text;
END
$function$;
COMMENT ON FUNCTION waybill.drop_step_rule(text,regproc) IS 'Takes back what add_step_rule made; the rule''s function stays. For migrations that go down.';

CREATE OR REPLACE FUNCTION waybill.guard_history()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'INSERT on %.% is refused: history is written by the triggers of the entity; change the entity',
                    TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'WB002';
  END IF;
  IF (NEW.seq = 1) IS DISTINCT FROM (NEW.from_status IS NULL) THEN
    PERFORM waybill.refuse_row(TG_TABLE_NAME || '_begins', 'the first row, and no other, has no state that it came from', NEW::text);
  END IF;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_history() IS 'BEFORE INSERT … FOR EACH ROW of a status history.';

CREATE OR REPLACE FUNCTION waybill.make_status_history(p_machine text, p_table regclass)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_history text := p_machine || '_status_history';
BEGIN
  EXECUTE format('CREATE TABLE waybill.%1$I (
                    tenant_id   bigint NOT NULL,
                    %2$I        uuid NOT NULL,
                    seq         int NOT NULL,
                    from_status text COLLATE "C",
                    to_status   text COLLATE "C" NOT NULL,
                    changed_by  uuid NOT NULL,
                    changed_at  timestamptz NOT NULL,
                    reason      waybill.reason,
                    request_id  text,
                    rule_version int,
                    CONSTRAINT %3$I PRIMARY KEY (tenant_id, %2$I, seq),
                    CONSTRAINT %4$I FOREIGN KEY (tenant_id, %2$I) REFERENCES %5$s (tenant_id, id))',
                 v_history, p_machine || '_id', v_history || '_pkey', v_history || '_' || p_machine || '_fkey', p_table);
  PERFORM waybill.reference_user(format('waybill.%I', v_history)::regclass, 'changed_by');
  PERFORM waybill.make_tenant_table(format('waybill.%I', v_history)::regclass, 'history is append-only', 'UPDATE OR DELETE OR TRUNCATE');
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON waybill.%I FOR EACH ROW EXECUTE FUNCTION waybill.guard_history()',
                 v_history || '_10_guard', v_history);
END
$function$;
COMMENT ON FUNCTION waybill.make_status_history(text,regclass) IS 'Makes the table waybill.<machine>_status_history: who moved an entity of p_table (tenant_id, id) from which state to which, when and why. For migrations.';

CREATE OR REPLACE FUNCTION waybill.next_states(p_machine text, p_from text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT coalesce(jsonb_agg(t.to_state ORDER BY t.to_state), '[]'::jsonb)
  FROM waybill.valid_transitions t WHERE t.machine = p_machine AND t.from_state = p_from
$function$;
GRANT EXECUTE ON FUNCTION waybill.next_states(text,text) TO waybill_app;

CREATE OR REPLACE FUNCTION waybill.note_rules()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_tenant text := nullif(current_setting('waybill.tenant_id', true), '');
  v_actor text := nullif(current_setting('waybill.actor', true), '');
  v_roles text := coalesce(current_setting('waybill.roles', true), '');
  v_request text := current_setting('waybill.request_id', true);
  v_id bigint;
BEGIN
  UPDATE waybill.machines m SET rule_version = m.rule_version + 1, rules = now_valid.rules
  FROM (SELECT x.machine, coalesce(jsonb_agg(jsonb_build_object(
                 'from', t.from_state, 'to', t.to_state, 'roles', t.roles, 'requiresReason', t.requires_reason, 'guards', t.guards,
                 'ruleVersion', t.rule_version) ORDER BY t.from_state, t.to_state) FILTER (WHERE t.machine IS NOT NULL), '[]') AS rules
        FROM waybill.machines x LEFT JOIN waybill.valid_transitions t ON t.machine = x.machine GROUP BY x.machine) now_valid
  WHERE now_valid.machine = m.machine AND now_valid.rules <> m.rules;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  FOR v_id IN SELECT t.id FROM waybill.tenant_ids() AS t(id) LOOP
    -- The tenant's system user acts; to find it, the transaction must be in the tenant already.
    PERFORM waybill.set_context(v_id, NULL, '{system}', 'workflow rules');
    PERFORM waybill.set_context(v_id, waybill.system_user(v_id), '{system}', 'workflow rules');
    PERFORM waybill.publish_rules(v_id);
  END LOOP;
  PERFORM waybill.set_context(v_tenant::bigint, v_actor::uuid, string_to_array(v_roles, ','), v_request);
  RETURN NULL;
END
$function$;
COMMENT ON FUNCTION waybill.note_rules() IS 'AFTER INSERT OR UPDATE OR DELETE … FOR EACH STATEMENT of valid_transitions: counts the version of a machine''s rules and tells every tenant''s log, as its system user.';

CREATE OR REPLACE FUNCTION waybill.number_rule()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  NEW.rule_version := (SELECT m.rule_version + 1 FROM waybill.machines m WHERE m.machine = NEW.machine);
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.number_rule() IS 'BEFORE INSERT OR UPDATE … FOR EACH ROW of valid_transitions: the version of the machine''s rules that this one comes with.';

CREATE OR REPLACE FUNCTION waybill.publish_rules(p_tenant bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO waybill.workflow_rules AS r (tenant_id, machine, rule_version, rules)
  SELECT p_tenant, m.machine, m.rule_version, m.rules FROM waybill.machines m
  ON CONFLICT (tenant_id, machine) DO UPDATE SET rule_version = excluded.rule_version, rules = excluded.rules
  WHERE r.rule_version <> excluded.rule_version;
END
$function$;
COMMENT ON FUNCTION waybill.publish_rules(bigint) IS 'Tells a tenant''s log of rules that it does not have yet. In the tenant''s context.';

CREATE OR REPLACE FUNCTION waybill.raise_refusal(p_refusal jsonb)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RAISE EXCEPTION '%', p_refusal ->> 'message'
    USING ERRCODE = p_refusal ->> 'code', DETAIL = coalesce(p_refusal ->> 'detail', ''), HINT = coalesce(p_refusal ->> 'hint', '');
END
$function$;
COMMENT ON FUNCTION waybill.raise_refusal(jsonb) IS 'Raises what a rule of a step says: {code: SQLSTATE, message, detail?, hint?}.';

CREATE OR REPLACE FUNCTION waybill.refuse_beginning(p_machine text, p_id uuid, p_state text, p_version integer, p_initial text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF p_state IS DISTINCT FROM p_initial THEN
    RAISE EXCEPTION '% % cannot begin as %: every % begins as %', p_machine, p_id, p_state, p_machine, p_initial
      USING ERRCODE = 'WB003', HINT = 'Insert it in its initial state, then move it along valid_transitions.';
  END IF;
  RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', p_machine, p_id, p_version
    USING ERRCODE = 'WB003';
END
$function$;
COMMENT ON FUNCTION waybill.refuse_beginning(text,uuid,text,integer,text) IS 'Says why an entity cannot be inserted like this. For the guards that waybill.attach_machine makes.';

CREATE OR REPLACE FUNCTION waybill.refuse_version(p_machine text, p_id uuid, p_present integer, p_wanted integer)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RAISE EXCEPTION '% % is at version %: the next one is %, not %', p_machine, p_id, p_present, p_present + 1, p_wanted
    USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
END
$function$;

CREATE OR REPLACE FUNCTION waybill.require_step(p_machine text, p_id uuid, p_from text, p_to text, p_has_reason boolean)
 RETURNS integer
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_rule waybill.valid_transitions;
BEGIN
  SELECT t.* INTO v_rule FROM waybill.valid_transitions t
  WHERE t.machine = p_machine AND t.from_state = p_from AND t.to_state = p_to;
  IF NOT FOUND THEN
    RAISE EXCEPTION '% % cannot go from % to %', p_machine, p_id, p_from, p_to
      USING ERRCODE = 'WB010',
            DETAIL = jsonb_build_object('from', p_from, 'to', p_to, 'allowed', waybill.next_states(p_machine, p_from))::text,
            HINT = 'waybill.valid_transitions lists what is allowed.';
  END IF;
  IF NOT v_rule.roles && coalesce(string_to_array(current_setting('waybill.roles', true), ','), '{}') THEN
    RAISE EXCEPTION '% % goes from % to % only by one of the roles %',
                    p_machine, p_id, p_from, p_to, array_to_string(v_rule.roles, ', ')
      USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', to_jsonb(v_rule.roles))::text,
            HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
  IF v_rule.requires_reason AND NOT p_has_reason THEN
    RAISE EXCEPTION '% % goes from % to % only with a reason', p_machine, p_id, p_from, p_to
      USING ERRCODE = 'WB014', HINT = 'Give it in the same UPDATE: SET status = …, transition_reason = …';
  END IF;
  RETURN v_rule.rule_version;
END
$function$;
COMMENT ON FUNCTION waybill.require_step(text,uuid,text,text,boolean) IS 'Refuses a step that valid_transitions doesn''t have, that the actor''s roles don''t allow, or that lacks its reason. Returns the version of the rules that allowed it.';

CREATE OR REPLACE FUNCTION waybill.states_in_use(p_machine text)
 RETURNS text[]
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_table regclass := (SELECT m.entity_table::regclass FROM waybill.machines m WHERE m.machine = p_machine);
  v_before text := current_setting('waybill.tenant_id', true);
  v_tenant bigint;
  v_state text;
  v_found text[] := '{}';
BEGIN
  -- Tenant by tenant, as the policies want it, and from state to state by the index: a few look-ups a tenant, however
  -- many entities it has.
  FOR v_tenant IN SELECT t.id FROM waybill.tenant_ids() AS t(id) LOOP
    PERFORM set_config('waybill.tenant_id', v_tenant::text, true);
    v_state := '';
    LOOP
      EXECUTE format('SELECT status FROM %s WHERE tenant_id = $1 AND status > $2 ORDER BY status LIMIT 1', v_table)
      INTO v_state USING v_tenant, v_state;
      EXIT WHEN v_state IS NULL;
      IF v_state <> ALL (v_found) THEN
        v_found := v_found || v_state;
      END IF;
    END LOOP;
  END LOOP;
  PERFORM set_config('waybill.tenant_id', coalesce(v_before, ''), true);
  RETURN v_found;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.states_in_use(text) TO waybill_app;
COMMENT ON FUNCTION waybill.states_in_use(text) IS 'The states that entities of a machine are in, all tenants together: nothing but their names. For the warning at the start.';

CREATE OR REPLACE FUNCTION waybill.step_refusals(p_tenant bigint, p_machine text, p_id uuid)
 RETURNS TABLE(to_states text[], refusal jsonb)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_rule text;
BEGIN
  FOR v_rule, to_states IN SELECT r.rule, r.to_states FROM waybill.step_rules r WHERE r.machine = p_machine ORDER BY r.rule LOOP
    EXECUTE format('SELECT %s($1, $2)', v_rule) INTO refusal USING p_tenant, p_id;
    IF refusal IS NOT NULL THEN
      RETURN NEXT;
    END IF;
  END LOOP;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.step_refusals(bigint,text,uuid) TO waybill_app;
COMMENT ON FUNCTION waybill.step_refusals(bigint,text,uuid) IS 'What the rules of waybill.add_step_rule have against steps of an entity now, and to which states: the very questions that the steps are asked.';

CREATE OR REPLACE FUNCTION waybill.workflow_snapshot(r waybill.workflow_rules)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object('id', r.id, 'machine', r.machine, 'ruleVersion', r.rule_version, 'rules', r.rules, 'version', r.version,
                           'updatedAt', waybill.json_time(r.updated_at));
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.workflow_snapshot(waybill.workflow_rules) TO waybill_audit;
COMMENT ON FUNCTION waybill.workflow_snapshot(waybill.workflow_rules) IS 'The rules of a machine as events keep them; each names the ruleVersion that it came with.';
