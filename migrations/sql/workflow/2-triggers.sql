CREATE FUNCTION waybill.guard_insert() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.guard_insert IS
  'BEFORE INSERT … FOR EACH ROW, argument: machine. Initial state, version 1, the present as time.';

CREATE FUNCTION waybill.guard_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.guard_update IS
  'BEFORE UPDATE … FOR EACH ROW, arguments: machine, history table, its column for this entity. Transition, role, reason, version, time, history.';

CREATE FUNCTION waybill.begin_history() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.begin_history IS
  'AFTER INSERT … FOR EACH ROW, arguments: history table, its column for this entity. The first row of the history.';
