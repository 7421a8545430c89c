CREATE TABLE waybill.workflow_rules (
  tenant_id    bigint NOT NULL,
  id           uuid NOT NULL DEFAULT gen_random_uuid(),
  machine      text COLLATE "C" NOT NULL,
  rule_version int NOT NULL,
  rules        jsonb NOT NULL,
  version      int NOT NULL DEFAULT 1,
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT workflow_rules_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT workflow_rules_machine_key UNIQUE (tenant_id, machine)
);

COMMENT ON TABLE waybill.workflow_rules IS
  'The rules of each machine as a tenant''s log tells of them, so that an export of the tenant alone shows which rule was in force. A copy of waybill.machines.';

SELECT waybill.make_tenant_table('waybill.workflow_rules', 'what a machine allowed stays known');

CREATE FUNCTION waybill.workflow_snapshot(r waybill.workflow_rules) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', r.id, 'machine', r.machine, 'ruleVersion', r.rule_version, 'rules', r.rules, 'version', r.version,
                           'updatedAt', waybill.json_time(r.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.workflow_snapshot IS
  'The rules of a machine as events keep them; each names the ruleVersion that it came with.';

SELECT waybill.attach_stream('workflow', 'waybill.workflow_rules');

CREATE FUNCTION waybill.number_rule() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.rule_version := (SELECT m.rule_version + 1 FROM waybill.machines m WHERE m.machine = NEW.machine);
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.number_rule IS
  'BEFORE INSERT OR UPDATE … FOR EACH ROW of valid_transitions: the version of the machine''s rules that this one comes with.';

CREATE FUNCTION waybill.publish_rules(p_tenant bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO waybill.workflow_rules AS r (tenant_id, machine, rule_version, rules)
  SELECT p_tenant, m.machine, m.rule_version, m.rules FROM waybill.machines m
  ON CONFLICT (tenant_id, machine) DO UPDATE SET rule_version = excluded.rule_version, rules = excluded.rules
  WHERE r.rule_version <> excluded.rule_version;
END
$$;

COMMENT ON FUNCTION waybill.publish_rules IS
  'Tells a tenant''s log of rules that it does not have yet. In the tenant''s context.';

CREATE FUNCTION waybill.note_rules() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.note_rules IS
  'AFTER INSERT OR UPDATE OR DELETE … FOR EACH STATEMENT of valid_transitions: counts the version of a machine''s rules and tells every tenant''s log, as its system user.';

CREATE TRIGGER valid_transitions_20_insert BEFORE INSERT ON waybill.valid_transitions
  FOR EACH ROW EXECUTE FUNCTION waybill.number_rule();

CREATE TRIGGER valid_transitions_20_update BEFORE UPDATE ON waybill.valid_transitions
  FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION waybill.number_rule();

CREATE TRIGGER valid_transitions_50_note AFTER INSERT OR UPDATE OR DELETE ON waybill.valid_transitions
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.note_rules();
