CREATE FUNCTION waybill.guard_history() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.guard_history IS
  'BEFORE INSERT … FOR EACH ROW of a status history.';

CREATE FUNCTION waybill.make_status_history(p_machine text, p_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.make_status_history IS
  'Makes the table waybill.<machine>_status_history: who moved an entity of p_table (tenant_id, id) from which state to which, when and why. For migrations.';

CREATE FUNCTION waybill.attach_machine(p_machine text, p_fixed text[], p_rules regproc DEFAULT NULL, p_erasure_type text DEFAULT NULL,
                                       p_parts text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.attach_machine IS
  'Puts the table of a machine under its rules: makes waybill.<machine>_status_history and the trigger functions that guard each change and record it as an event on <machine>/<id>. The table has tenant_id, id, status, version, updated_at and transition_reason; a function waybill.<machine>_snapshot(row) returning JSON text says what an event keeps. p_fixed: columns that never change. p_rules: function(new row, old row or null) that refuses what breaks a rule of several columns. p_parts, p_erasure_type: as audit.record takes them. For migrations.';

CREATE FUNCTION waybill.detach_machine(p_machine text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.detach_machine IS
  'Takes back what attach_machine made, with the machine, its rules and its history. The table stays, without rules. For migrations that go down.';
