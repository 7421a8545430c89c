SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.changes(p_old json, p_new json) RETURNS json
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_aligned boolean;
  v_changes json;
BEGIN
  -- Two snapshots of one version of their function have the same members in the same order.
  SELECT bool_and(z.old_key = z.new_key),
         json_object_agg(z.new_key, json_build_object('old', z.old_value, 'new', z.new_value))
           FILTER (WHERE z.old_value::text <> z.new_value::text AND z.old_value::jsonb <> z.new_value::jsonb
                     AND z.new_key NOT IN ('version', 'updatedAt'))
  INTO v_aligned, v_changes
  FROM ROWS FROM (json_each(p_old), json_each(p_new)) AS z(old_key, old_value, new_key, new_value);
  IF v_aligned IS NOT TRUE THEN
    SELECT json_object_agg(key, json_build_object('old', o.value, 'new', n.value)) INTO v_changes
    FROM json_each(p_old) o FULL JOIN json_each(p_new) n USING (key)
    WHERE o.value::jsonb IS DISTINCT FROM n.value::jsonb AND key NOT IN ('version', 'updatedAt');
  END IF;
  RETURN coalesce(v_changes, '{}');
END
$$;

COMMENT ON FUNCTION audit.changes IS
  'Field to {old, new} for the top-level members in which two snapshots differ; version and updatedAt always do and are left out.';

CREATE FUNCTION audit.append(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint,
                             p_type text, p_actor uuid, p_body text, p_prev_hash bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
  VALUES (p_tenant, p_stream, p_version, p_event_id, p_type, p_actor, p_occurred_us, p_body, p_prev_hash,
          audit.event_hash(p_tenant, p_event_id, p_stream, p_version, p_occurred_us, p_type, p_actor, p_body, p_prev_hash, 1::smallint), 1);
  INSERT INTO audit.queue (tenant_id, stream, version, occurred_us) VALUES (p_tenant, p_stream, p_version, p_occurred_us);
END
$$;

COMMENT ON FUNCTION audit.append IS
  'Appends one event and queues it for sealing. Nobody but waybill_audit''s own functions may execute it.';

CREATE FUNCTION audit.record(p_table text, p_stream text, p_tenant bigint, p_version bigint, p_at timestamptz, p_type text,
                             p_reason text, p_rule_version int, p_snapshot text, p_parts text, p_erasure_type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_type text := p_type;
  v_prev_hash bytea;
  v_prev_body text;
  v_changes json;
BEGIN
  IF p_version = 1 THEN
    v_prev_hash := audit.genesis_hash(p_tenant, p_stream);
  ELSE
    SELECT e.event_hash, e.body INTO STRICT v_prev_hash, v_prev_body FROM audit.events e
    WHERE e.tenant_id = p_tenant AND e.stream = p_stream AND e.version = p_version - 1;
    -- The end of a body is its snapshot's. Equal text needs no parsing, and a quote within a value has a backslash before it.
    IF split_part(v_prev_body, p_parts, 2) = split_part(p_snapshot, p_parts, 2) || '}' THEN
      v_changes := audit.changes(
        concat(split_part(split_part(v_prev_body, p_parts, 1), ',"snapshot":', 2), '}')::json,
        concat(split_part(p_snapshot, p_parts, 1), '}')::json);
    ELSE
      v_changes := audit.changes(v_prev_body::json -> 'snapshot', p_snapshot::json);
      IF p_erasure_type IS NOT NULL AND json_typeof(v_changes #> '{contacts,new}') = 'null' THEN
        v_type := p_erasure_type;
      END IF;
    END IF;
  END IF;
  PERFORM audit.append(
    p_tenant, gen_random_uuid(), p_stream, p_version, (extract(epoch FROM p_at) * 1000000)::bigint, v_type,
    current_setting('waybill.actor')::uuid,
    concat('{"table":"', p_table, '","reason":', coalesce(to_json(p_reason)::text, 'null'), ',"requestId":',
           coalesce(to_json(nullif(current_setting('waybill.request_id', true), ''))::text, 'null'),
           ',"keyDigest":' || to_json(nullif(current_setting('waybill.key_digest', true), '')), ',"ruleVersion":' || p_rule_version,
           ',"changes":', coalesce(v_changes::text, 'null'), ',"snapshot":', p_snapshot, '}'),
    v_prev_hash);
END
$$;

COMMENT ON FUNCTION audit.record IS
  'Appends the event of one version of an entity: its snapshot, and the difference to the snapshot before. p_parts: the text that begins the members at the end of a snapshot which seldom change, such as ,"lines": — or null. p_erasure_type: the type where contacts are there no more, or null. Nobody but waybill_audit''s own functions may execute it.';

CREATE FUNCTION audit.hand_over_recorder(p_prefix text, p_comment text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('COMMENT ON FUNCTION audit.%I IS %L', 'record_' || p_prefix, p_comment);
  EXECUTE format('GRANT EXECUTE ON FUNCTION audit.%I TO waybill_owner', 'record_' || p_prefix);
END
$$;

CREATE FUNCTION audit.create_recorder(p_prefix text, p_table regclass, p_update_type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format($create$
CREATE FUNCTION audit.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $record$
DECLARE
  v_type text := 'created';
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.version = OLD.version THEN
      RETURN NULL;
    END IF;
    v_type := %6$s;
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record(%4$L, %2$L || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       %5$L || v_type, NULL, NULL, waybill.%3$I(NEW), NULL, NULL);
  RETURN NULL;
END
$record$ $create$,
    'record_' || p_prefix, p_prefix || '/', p_prefix || '_snapshot', (SELECT c.relname FROM pg_class c WHERE c.oid = p_table),
    p_prefix || '.', p_update_type);
  PERFORM audit.hand_over_recorder(p_prefix, 'Made by audit.create_recorder: appends an event for each version of an entity.');
END
$$;

COMMENT ON FUNCTION audit.create_recorder IS
  'Makes the trigger function audit.record_<prefix> of a table without states. For waybill.attach_stream, as waybill_audit.';

CREATE FUNCTION audit.create_machine_recorder(p_machine text, p_table regclass, p_parts text, p_erasure_type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format($create$
CREATE FUNCTION audit.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $record$
DECLARE
  v_type text := 'updated';
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    v_type := 'created';
    INSERT INTO waybill.%3$I (tenant_id, %4$I, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
  ELSIF NEW.version = OLD.version THEN
    RETURN NULL;
  ELSIF NEW.status <> OLD.status THEN
    v_type := NEW.status;
    SELECT h.reason, h.rule_version INTO STRICT v_reason, v_rule_version FROM waybill.%3$I h
    WHERE h.tenant_id = NEW.tenant_id AND h.%4$I = NEW.id ORDER BY h.seq DESC LIMIT 1;
  ELSE
    PERFORM waybill.require_actor(NEW.tenant_id);
  END IF;
  PERFORM audit.record(%6$L, %2$L || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       %7$L || v_type, v_reason, v_rule_version, waybill.%5$I(NEW), %8$L, %9$L);
  RETURN NULL;
END
$record$ $create$,
    'record_' || p_machine, p_machine || '/', p_machine || '_status_history', p_machine || '_id', p_machine || '_snapshot',
    (SELECT c.relname FROM pg_class c WHERE c.oid = p_table), p_machine || '.', p_parts, p_erasure_type);
  PERFORM audit.hand_over_recorder(p_machine,
    'Made by audit.create_machine_recorder: appends an event for each version of an entity, and begins its history. Who acted is a user of the tenant: the history refers to him, and a change without a step asks.');
END
$$;

COMMENT ON FUNCTION audit.create_machine_recorder IS
  'Makes the trigger function audit.record_<machine>. For waybill.attach_machine, as waybill_audit.';

GRANT EXECUTE ON FUNCTION audit.pii_digest, audit.create_recorder, audit.create_machine_recorder TO waybill_owner;

RESET ROLE;
