CREATE FUNCTION waybill.add_state(p_machine text, p_state text, p_transitions jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.add_state IS
  'For an extension''s migration: adds a state with its transitions [{from_state, to_state, roles, requires_reason?, guards?}] and rebuilds the CHECK of the machine''s table, <table>_status_check.';

CREATE FUNCTION waybill.states_in_use(p_machine text) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.states_in_use IS
  'The states that entities of a machine are in, all tenants together: nothing but their names. For the warning at the start.';

GRANT EXECUTE ON FUNCTION waybill.states_in_use TO waybill_app;
