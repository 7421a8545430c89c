-- What the area workflow makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE TABLE waybill.machines (
  machine text COLLATE "C" NOT NULL,
  entity_table text NOT NULL,
  initial_state text COLLATE "C" NOT NULL
);
ALTER TABLE waybill.machines ADD CONSTRAINT machines_name_format CHECK ((machine ~ '^[a-z][a-z0-9_]{0,62}$'::text));
ALTER TABLE waybill.machines ADD CONSTRAINT machines_pkey PRIMARY KEY (machine);
GRANT SELECT ON waybill.machines TO waybill_app;
GRANT SELECT ON waybill.machines TO waybill_audit;
GRANT SELECT ON waybill.machines TO waybill_sealer;
COMMENT ON COLUMN waybill.machines.entity_table IS 'The table whose column status this machine rules; add_state rebuilds its CHECK.';

CREATE TABLE waybill.valid_transitions (
  machine text COLLATE "C" NOT NULL,
  from_state text COLLATE "C" NOT NULL,
  to_state text COLLATE "C" NOT NULL,
  roles text[] NOT NULL,
  requires_reason boolean DEFAULT false NOT NULL,
  guards text[] DEFAULT '{}'::text[] NOT NULL
);
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines(machine);
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_moves CHECK ((from_state <> to_state));
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_pkey PRIMARY KEY (machine, from_state, to_state);
ALTER TABLE waybill.valid_transitions ADD CONSTRAINT valid_transitions_state_format CHECK (((from_state ~ '^[a-z][a-z0-9_]{0,62}$'::text) AND (to_state ~ '^[a-z][a-z0-9_]{0,62}$'::text)));
GRANT SELECT ON waybill.valid_transitions TO waybill_app;
GRANT SELECT ON waybill.valid_transitions TO waybill_audit;
GRANT SELECT ON waybill.valid_transitions TO waybill_sealer;

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
COMMENT ON FUNCTION waybill.add_state(text,text,jsonb) IS 'For an extension''s migration: adds a state with its transitions [{from_state, to_state, roles, requires_reason?, guards?}] and rebuilds the CHECK of the machine''s table.';

CREATE OR REPLACE FUNCTION waybill.begin_history()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  -- A statement that names its table is planned once a session; EXECUTE plans at every call.
  IF TG_ARGV[0] = 'waybill.order_status_history' THEN
    INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
    RETURN NULL;
  END IF;
  EXECUTE format('INSERT INTO %s (tenant_id, %I, seq, to_status, changed_by, changed_at, request_id)
                  VALUES ($1, $2, 1, $3, $4, $5, $6)', TG_ARGV[0], TG_ARGV[1])
  USING NEW.tenant_id, NEW.id, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
        nullif(current_setting('waybill.request_id', true), '');
  RETURN NULL;
END
$function$;
COMMENT ON FUNCTION waybill.begin_history() IS 'AFTER INSERT … FOR EACH ROW, arguments: history table, its column for this entity. The first row of the history.';

CREATE OR REPLACE FUNCTION waybill.guard_insert()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_initial text;
BEGIN
  SELECT m.initial_state INTO STRICT v_initial FROM waybill.machines m WHERE m.machine = TG_ARGV[0];
  IF NEW.status IS DISTINCT FROM v_initial THEN
    RAISE EXCEPTION '% % cannot begin as %: every % begins as %', TG_ARGV[0], NEW.id, NEW.status, TG_ARGV[0], v_initial
      USING ERRCODE = 'WB003', HINT = 'Insert it in its initial state, then move it along valid_transitions.';
  END IF;
  IF NEW.version IS DISTINCT FROM 1 THEN
    RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', TG_ARGV[0], NEW.id, NEW.version
      USING ERRCODE = 'WB003';
  END IF;
  -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
  IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
    NEW.updated_at := clock_timestamp();
  END IF;
  NEW.transition_reason := NULL;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_insert() IS 'BEFORE INSERT … FOR EACH ROW, argument: machine. Initial state, version 1, the present as time.';

CREATE OR REPLACE FUNCTION waybill.guard_update()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_rule waybill.valid_transitions;
  v_held text[] := string_to_array(current_setting('waybill.roles', true), ',');
  v_reason text := nullif(btrim(NEW.transition_reason), '');
BEGIN
  NEW.transition_reason := NULL;
  IF NEW IS NOT DISTINCT FROM OLD THEN
    RETURN NEW;
  END IF;

  IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
    RAISE EXCEPTION '% % is at version %: the next one is %, not %',
                    TG_ARGV[0], OLD.id, OLD.version, OLD.version + 1, NEW.version
      USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  IF NEW.status = OLD.status THEN
    RETURN NEW;
  END IF;

  SELECT t.* INTO v_rule FROM waybill.valid_transitions t
  WHERE t.machine = TG_ARGV[0] AND t.from_state = OLD.status AND t.to_state = NEW.status;
  IF NOT FOUND THEN
    RAISE EXCEPTION '% % cannot go from % to %', TG_ARGV[0], OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'WB010',
            DETAIL = jsonb_build_object('from', OLD.status, 'to', NEW.status, 'allowed', waybill.next_states(TG_ARGV[0], OLD.status))::text,
            HINT = 'waybill.valid_transitions lists what is allowed.';
  END IF;
  IF NOT v_rule.roles && coalesce(v_held, '{}') THEN
    RAISE EXCEPTION '% % goes from % to % only by one of the roles %',
                    TG_ARGV[0], OLD.id, OLD.status, NEW.status, array_to_string(v_rule.roles, ', ')
      USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', to_jsonb(v_rule.roles))::text,
            HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
  IF v_rule.requires_reason AND v_reason IS NULL THEN
    RAISE EXCEPTION '% % goes from % to % only with a reason', TG_ARGV[0], OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'WB014', HINT = 'Give it in the same UPDATE: SET status = …, transition_reason = …';
  END IF;

  -- The history is written here and not after the row, because only here the reason is at hand: it is an argument
  -- that the row doesn't keep.
  IF TG_ARGV[1] = 'waybill.order_status_history' THEN
    INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, from_status, to_status, changed_by, changed_at, reason, request_id)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), '')
    FROM waybill.order_status_history h WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id;
    RETURN NEW;
  END IF;
  EXECUTE format('INSERT INTO %s (tenant_id, %I, seq, from_status, to_status, changed_by, changed_at, reason, request_id)
                  SELECT $1, $2, max(h.seq) + 1, $3, $4, $5, $6, $7, $8 FROM %1$s h WHERE h.tenant_id = $1 AND h.%2$I = $2',
                 TG_ARGV[1], TG_ARGV[2])
  USING NEW.tenant_id, NEW.id, OLD.status, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at, v_reason,
        nullif(current_setting('waybill.request_id', true), '');
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_update() IS 'BEFORE UPDATE … FOR EACH ROW, arguments: machine, history table, its column for this entity. Transition, role, reason, version, time, history.';

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
  -- many orders it has.
  FOR v_tenant IN SELECT t.id FROM waybill.tenants t LOOP
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
