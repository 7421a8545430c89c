import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Append-only, hash-chained events, written by a trigger alone. */
export class AuditEvents1764460803000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(`
DO $$
BEGIN
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'The database must be encoded in UTF8: event hashes are over UTF-8 bytes';
  END IF;
END
$$`);
    await db.query(`CREATE SCHEMA audit AUTHORIZATION waybill_audit`);
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`);
    await db.query(`GRANT USAGE ON SCHEMA audit TO waybill_owner, waybill_app, waybill_sealer`);
    await db.query(`
CREATE TABLE audit.events (
  tenant_id   bigint NOT NULL,
  stream      text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  event_id    uuid NOT NULL,
  type        text COLLATE "C" NOT NULL,
  actor       uuid NOT NULL,
  occurred_us bigint NOT NULL,
  body        text NOT NULL,
  prev_hash   bytea NOT NULL,
  event_hash  bytea NOT NULL,
  format      smallint NOT NULL,
  CONSTRAINT events_pkey PRIMARY KEY (tenant_id, stream, version)
)`);
    await db.query(`COMMENT ON COLUMN audit.events.occurred_us IS 'Microseconds since 1970-01-01T00:00:00Z.'`);
    await db.query(`COMMENT ON COLUMN audit.events.body IS 'JSON text, stored verbatim and hashed as stored.'`);

    await db.query(`
CREATE FUNCTION audit.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on %.% is refused: it is append-only', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
    USING ERRCODE = 'WB002';
END
$$`);
    await db.query(`
CREATE TRIGGER events_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.events
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.events ENABLE ALWAYS TRIGGER events_00_append_only;
ALTER TABLE audit.events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY events_tenant ON audit.events FOR SELECT
  USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);
CREATE POLICY events_append ON audit.events FOR INSERT TO waybill_audit
  WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);
CREATE POLICY events_seal ON audit.events FOR SELECT TO waybill_sealer USING (true);
GRANT SELECT ON audit.events TO waybill_owner, waybill_app, waybill_sealer`);

    // PL/pgSQL, although each is one expression: it keeps its plan, where a function in SQL is planned at every call.
    await db.query(`
CREATE FUNCTION audit.event_hash(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint,
                                 p_type text, p_actor uuid, p_body text, p_prev_hash bytea, p_format smallint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN sha256(convert_to('waybill-audit/v' || p_format || E'\\n', 'UTF8') || int8send(p_tenant) || uuid_send(p_event_id)
    || int4send(octet_length(p_stream)) || convert_to(p_stream, 'UTF8') || int8send(p_version) || int8send(p_occurred_us)
    || int4send(octet_length(p_type)) || convert_to(p_type, 'UTF8') || uuid_send(p_actor)
    || int4send(octet_length(p_body)) || convert_to(p_body, 'UTF8') || p_prev_hash);
END
$$`);
    await db.query(`
CREATE FUNCTION audit.genesis_hash(p_tenant bigint, p_stream text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN sha256(convert_to(E'waybill-audit/genesis/v1\\n', 'UTF8') || int8send(p_tenant)
    || int4send(octet_length(p_stream)) || convert_to(p_stream, 'UTF8'));
END
$$`);
    await db.query(`
CREATE FUNCTION audit.pii_digest(p_salt bytea, p_field text, p_value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN encode(sha256(convert_to(E'waybill-pii/v1\\n', 'UTF8') || p_salt
    || int4send(octet_length(p_field)) || convert_to(p_field, 'UTF8')
    || int4send(octet_length(p_value)) || convert_to(p_value, 'UTF8')), 'hex');
END
$$`);
    await db.query(`
CREATE FUNCTION audit.changes(p_old jsonb, p_new jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT coalesce(jsonb_object_agg(key, jsonb_build_object('old', o.value, 'new', n.value)), '{}'::jsonb)
    FROM jsonb_each(p_old) o FULL JOIN jsonb_each(p_new) n USING (key)
    WHERE o.value IS DISTINCT FROM n.value AND key NOT IN ('version', 'updatedAt'));
END
$$`);
    await db.query(`COMMENT ON FUNCTION audit.changes IS
      'Field to {old, new} for the top-level members in which two snapshots differ; version and updatedAt always do and are left out.'`);

    await db.query(`
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
    v_type := TG_ARGV[0] || '.updated';
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
  INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
  VALUES (NEW.tenant_id, v_stream, NEW.version, v_event_id, v_type, v_actor, v_occurred_us, v_body, v_prev_hash,
          audit.event_hash(NEW.tenant_id, v_event_id, v_stream, NEW.version, v_occurred_us, v_type, v_actor, v_body, v_prev_hash, 1::smallint), 1);
  RETURN NULL;
END
$$`);
    await db.query(`COMMENT ON FUNCTION audit.record_change IS
      'AFTER INSERT OR UPDATE … FOR EACH ROW, arguments: stream prefix, snapshot function(tenant, id), history table, its column for this entity. Appends one event.'`);

    await db.query(`
CREATE VIEW audit.field_changes WITH (security_invoker = true) AS
SELECT e.tenant_id,
       e.body::jsonb ->> 'table' AS table_name,
       split_part(e.stream, '/', 2) AS record_id,
       e.version,
       c.key AS field_name,
       CASE WHEN e.version > 1 THEN nullif(c.value -> 'old', 'null'::jsonb) END AS old_value,
       CASE WHEN e.version > 1 THEN nullif(c.value -> 'new', 'null'::jsonb) ELSE c.value END AS new_value,
       e.actor AS changed_by,
       timestamptz 'epoch' + e.occurred_us * interval '1 microsecond' AS changed_at
FROM audit.events e
CROSS JOIN LATERAL jsonb_each(e.body::jsonb -> CASE WHEN e.version > 1 THEN 'changes' ELSE 'snapshot' END) c`);
    await db.query(`
GRANT SELECT ON audit.field_changes TO waybill_owner, waybill_app, waybill_sealer;
GRANT EXECUTE ON FUNCTION audit.event_hash, audit.genesis_hash TO waybill_owner, waybill_app, waybill_sealer;
GRANT EXECUTE ON FUNCTION audit.pii_digest, audit.record_change TO waybill_owner`);
    await db.query(`RESET ROLE`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`DROP SCHEMA audit CASCADE`);
    await db.query(`ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC`);
    await db.query(`RESET ROLE`);
  }
}
