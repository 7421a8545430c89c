CREATE FUNCTION waybill.next_states(p_machine text, p_from text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(t.to_state ORDER BY t.to_state), '[]'::jsonb)
  FROM waybill.valid_transitions t WHERE t.machine = p_machine AND t.from_state = p_from
$$;

GRANT EXECUTE ON FUNCTION waybill.next_states TO waybill_app;

CREATE FUNCTION waybill.refuse_beginning(p_machine text, p_id uuid, p_state text, p_version int, p_initial text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_state IS DISTINCT FROM p_initial THEN
    RAISE EXCEPTION '% % cannot begin as %: every % begins as %', p_machine, p_id, p_state, p_machine, p_initial
      USING ERRCODE = 'WB003', HINT = 'Insert it in its initial state, then move it along valid_transitions.';
  END IF;
  RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', p_machine, p_id, p_version
    USING ERRCODE = 'WB003';
END
$$;

COMMENT ON FUNCTION waybill.refuse_beginning IS
  'Says why an entity cannot be inserted like this. For the guards that waybill.attach_machine makes.';

CREATE FUNCTION waybill.refuse_version(p_machine text, p_id uuid, p_present int, p_wanted int) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% % is at version %: the next one is %, not %', p_machine, p_id, p_present, p_present + 1, p_wanted
    USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
END
$$;

CREATE FUNCTION waybill.require_step(p_machine text, p_id uuid, p_from text, p_to text, p_has_reason boolean) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.require_step IS
  'Refuses a step that valid_transitions doesn''t have, that the actor''s roles don''t allow, or that lacks its reason. Returns the version of the rules that allowed it.';
