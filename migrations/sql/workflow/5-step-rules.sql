CREATE TABLE waybill.step_rules (
  machine   text COLLATE "C" NOT NULL,
  rule      text COLLATE "C" NOT NULL,
  to_states text[] NOT NULL,
  CONSTRAINT step_rules_pkey PRIMARY KEY (machine, rule),
  CONSTRAINT step_rules_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines (machine)
);

COMMENT ON COLUMN waybill.step_rules.rule IS
  'A function (tenant, id of the entity) that says what stands in the way of a step to one of these states; see waybill.add_step_rule.';

GRANT SELECT ON waybill.step_rules TO waybill_app, waybill_audit, waybill_sealer;

CREATE FUNCTION waybill.raise_refusal(p_refusal jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '%', p_refusal ->> 'message'
    USING ERRCODE = p_refusal ->> 'code', DETAIL = coalesce(p_refusal ->> 'detail', ''), HINT = coalesce(p_refusal ->> 'hint', '');
END
$$;

COMMENT ON FUNCTION waybill.raise_refusal IS
  'Raises what a rule of a step says: {code: SQLSTATE, message, detail?, hint?}.';

CREATE FUNCTION waybill.add_step_rule(p_machine text, p_rule regproc, p_to_states text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.add_step_rule IS
  'Lets a function (tenant, id of the entity) say what stands in the way of a step of a machine to some states: null for nothing, or {code: SQLSTATE, message, detail?, hint?} as jsonb. The step is refused with that, and waybill.step_refusals lists it. For migrations.';

CREATE FUNCTION waybill.drop_step_rule(p_machine text, p_rule regproc) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('DROP FUNCTION waybill.%I() CASCADE', 'ask_' || (SELECT p.proname FROM pg_proc p WHERE p.oid = p_rule));
  DELETE FROM waybill.step_rules r WHERE r.machine = p_machine AND r.rule = p_rule::text;
END
$$;

COMMENT ON FUNCTION waybill.drop_step_rule IS
  'Takes back what add_step_rule made; the rule''s function stays. For migrations that go down.';

CREATE FUNCTION waybill.step_refusals(p_tenant bigint, p_machine text, p_id uuid) RETURNS TABLE (to_states text[], refusal jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.step_refusals IS
  'What the rules of waybill.add_step_rule have against steps of an entity now, and to which states: the very questions that the steps are asked.';

GRANT EXECUTE ON FUNCTION waybill.step_refusals TO waybill_app;
