SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.changes(p_old jsonb, p_new jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT coalesce(jsonb_object_agg(key, jsonb_build_object('old', o.value, 'new', n.value)), '{}'::jsonb)
    FROM jsonb_each(p_old) o FULL JOIN jsonb_each(p_new) n USING (key)
    WHERE o.value IS DISTINCT FROM n.value AND key NOT IN ('version', 'updatedAt'));
END
$$;

COMMENT ON FUNCTION audit.changes IS
  'Field to {old, new} for the top-level members in which two snapshots differ; version and updatedAt always do and are left out.';

CREATE FUNCTION audit.record_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_stream text := TG_ARGV[0] || '/' || NEW.id;
  v_type text := TG_ARGV[0] || '.created';
  v_event_id uuid := gen_random_uuid();
  v_occurred_us bigint := extract(epoch FROM NEW.updated_at) * 1000000;
  v_actor uuid := current_setting('waybill.actor')::uuid;
  v_snapshot jsonb;
  v_changes jsonb;
  v_reason text;
  v_prev_hash bytea;
  v_prev_body text;
  v_body text;
BEGIN
  IF TG_ARGV[1] = 'waybill.order_snapshot' THEN
    v_snapshot := waybill.order_snapshot(NEW.tenant_id, NEW.id);
  ELSE
    EXECUTE 'SELECT ' || TG_ARGV[1] || '($1, $2)' INTO STRICT v_snapshot USING NEW.tenant_id, NEW.id;
  END IF;
  IF TG_OP = 'INSERT' THEN
    v_prev_hash := audit.genesis_hash(NEW.tenant_id, v_stream);
  ELSE
    SELECT e.event_hash, e.body INTO STRICT v_prev_hash, v_prev_body FROM audit.events e
    WHERE e.tenant_id = NEW.tenant_id AND e.stream = v_stream AND e.version = NEW.version - 1;
    v_changes := audit.changes(v_prev_body::jsonb -> 'snapshot', v_snapshot);
    v_type := coalesce(TG_ARGV[4], TG_ARGV[0] || '.updated');
    IF NEW.status <> OLD.status THEN
      v_type := TG_ARGV[0] || '.' || NEW.status;
      IF TG_ARGV[2] = 'waybill.order_status_history' THEN
        SELECT h.reason INTO STRICT v_reason FROM waybill.order_status_history h
        WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id ORDER BY h.seq DESC LIMIT 1;
      ELSE
        EXECUTE format('SELECT h.reason FROM %s h WHERE h.tenant_id = $1 AND h.%I = $2 ORDER BY h.seq DESC LIMIT 1',
                     TG_ARGV[2], TG_ARGV[3])
      INTO STRICT v_reason USING NEW.tenant_id, NEW.id;
      END IF;
    END IF;
  END IF;
  v_body := jsonb_build_object('table', TG_TABLE_NAME, 'reason', v_reason, 'changes', v_changes, 'snapshot', v_snapshot,
                               'requestId', nullif(current_setting('waybill.request_id', true), ''))::text;
  PERFORM audit.append(NEW.tenant_id, v_event_id, v_stream, NEW.version, v_occurred_us, v_type, v_actor, v_body, v_prev_hash);
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION audit.record_change IS
  'AFTER INSERT OR UPDATE … FOR EACH ROW, arguments: stream prefix, snapshot function(tenant, id), history table, its column for this entity, and, where it isn''t <prefix>.updated, the type of a change that leaves the status. Appends one event.';

GRANT EXECUTE ON FUNCTION audit.pii_digest, audit.record_change TO waybill_owner;

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

RESET ROLE;
