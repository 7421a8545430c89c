import type { MigrationInterface, QueryRunner } from 'typeorm';

const tenantOnly = `tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint`;

/** What is written once: the database refuses any later UPDATE, DELETE and TRUNCATE of these. */
const IMMUTABLE = ['logs', 'leaves', 'nodes', 'checkpoints', 'keys', 'verifications'];

/** The tamper-evident log over the events: queue, leaves, tree, checkpoints, keys, results of verifications. */
export class AuditLog1764460807000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(`GRANT SELECT (tenant_id, id, subject) ON waybill.users TO waybill_audit`);
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await this.tables(db);
    await this.rights(db);
    await this.appending(db);
    await this.backlog(db);
    await db.query(`RESET ROLE`);
  }

  private async tables(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE TABLE audit.queue (
  tenant_id   bigint NOT NULL,
  stream      text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  occurred_us bigint NOT NULL,
  CONSTRAINT queue_pkey PRIMARY KEY (tenant_id, stream, version)
)`);
    await db.query(`COMMENT ON TABLE audit.queue IS
      'Events that are not sealed yet. The append writes a row, the sealing takes it away; nothing depends on the order of commits.'`);
    await db.query(`
CREATE TABLE audit.logs (
  tenant_id  bigint NOT NULL,
  origin     text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT logs_pkey PRIMARY KEY (tenant_id)
)`);
    await db.query(
      `COMMENT ON TABLE audit.logs IS 'One log a tenant, made when its first event is sealed. Its row is the lock of whoever appends.'`,
    );
    await db.query(`
CREATE TABLE audit.leaves (
  tenant_id  bigint NOT NULL,
  leaf_index bigint NOT NULL,
  stream     text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  signature  bytea NOT NULL,
  leaf_hash  bytea NOT NULL,
  CONSTRAINT leaves_pkey PRIMARY KEY (tenant_id, leaf_index),
  CONSTRAINT leaves_event_key UNIQUE (tenant_id, stream, version),
  CONSTRAINT leaves_index_range CHECK (leaf_index BETWEEN 0 AND 9007199254740991),
  CONSTRAINT leaves_signature_length CHECK (octet_length(signature) = 64),
  CONSTRAINT leaves_hash_length CHECK (octet_length(leaf_hash) = 32)
)`);
    await db.query(`
CREATE TABLE audit.nodes (
  tenant_id  bigint NOT NULL,
  level      smallint NOT NULL,
  node_index bigint NOT NULL,
  hash       bytea NOT NULL,
  CONSTRAINT nodes_pkey PRIMARY KEY (tenant_id, level, node_index),
  CONSTRAINT nodes_level_check CHECK (level > 0 AND level % 8 = 0),
  CONSTRAINT nodes_hash_length CHECK (octet_length(hash) = 32)
)`);
    await db.query(`COMMENT ON TABLE audit.nodes IS
      'Roots of complete subtrees of 256, 65536, … leaves: level l, node i covers the leaves i * 2^l to (i + 1) * 2^l - 1. Nodes between are computed from at most 255 hashes.'`);
    await db.query(`
CREATE TABLE audit.checkpoints (
  tenant_id  bigint NOT NULL,
  size       bigint NOT NULL,
  root       bytea NOT NULL,
  note       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT checkpoints_pkey PRIMARY KEY (tenant_id, size),
  CONSTRAINT checkpoints_root_length CHECK (octet_length(root) = 32)
)`);
    await db.query(`
CREATE TABLE audit.keys (
  tenant_id  bigint NOT NULL,
  valid_from bigint NOT NULL,
  public_key bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, valid_from),
  CONSTRAINT keys_public_key_length CHECK (octet_length(public_key) = 32)
)`);
    await db.query(`COMMENT ON COLUMN audit.keys.valid_from IS 'Index of the first leaf that this Ed25519 key signs.'`);
    await db.query(`
CREATE TABLE audit.verifications (
  tenant_id   bigint NOT NULL,
  id          uuid NOT NULL,
  started_at  timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  verdict     text COLLATE "C" NOT NULL,
  from_index  bigint NOT NULL,
  size        bigint NOT NULL,
  root        bytea NOT NULL,
  result      jsonb NOT NULL,
  CONSTRAINT verifications_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT verifications_verdict_check CHECK (verdict IN ('intact', 'tampered', 'unverifiable'))
)`);
    await db.query(`CREATE INDEX verifications_finished_idx ON audit.verifications (tenant_id, finished_at)`);
  }

  private async rights(db: QueryRunner): Promise<void> {
    for (const table of [...IMMUTABLE, 'queue']) {
      await db.query(`
ALTER TABLE audit.${table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY ${table}_tenant ON audit.${table} FOR SELECT USING (${tenantOnly});
CREATE POLICY ${table}_seal ON audit.${table} TO waybill_sealer USING (true) WITH CHECK (true);
GRANT SELECT ON audit.${table} TO waybill_owner, waybill_app, waybill_sealer`);
    }
    for (const table of IMMUTABLE) {
      await db.query(`
GRANT INSERT ON audit.${table} TO waybill_sealer;
CREATE TRIGGER ${table}_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.${table}
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.${table} ENABLE ALWAYS TRIGGER ${table}_00_append_only`);
    }
    // SELECT … FOR UPDATE takes the right to UPDATE; the trigger refuses the UPDATE itself.
    await db.query(`GRANT UPDATE ON audit.logs TO waybill_sealer`);
    await db.query(`
CREATE POLICY queue_append ON audit.queue FOR INSERT TO waybill_audit WITH CHECK (${tenantOnly});
CREATE POLICY logs_lock ON audit.logs FOR UPDATE TO waybill_audit USING (${tenantOnly});
GRANT DELETE ON audit.queue TO waybill_sealer;
CREATE TRIGGER queue_00_no_update BEFORE UPDATE OR TRUNCATE ON audit.queue
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.queue ENABLE ALWAYS TRIGGER queue_00_no_update`);
  }

  private async appending(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE FUNCTION audit.append(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint,
                             p_type text, p_actor uuid, p_body text, p_prev_hash bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
  VALUES (p_tenant, p_stream, p_version, p_event_id, p_type, p_actor, p_occurred_us, p_body, p_prev_hash,
          audit.event_hash(p_tenant, p_event_id, p_stream, p_version, p_occurred_us, p_type, p_actor, p_body, p_prev_hash, 1::smallint), 1);
  INSERT INTO audit.queue (tenant_id, stream, version, occurred_us) VALUES (p_tenant, p_stream, p_version, p_occurred_us);
END
$$`);
    await db.query(`COMMENT ON FUNCTION audit.append IS
      'Appends one event and queues it for sealing. Nobody but waybill_audit''s own functions may execute it.'`);
    await db.query(recordChange(APPEND_EVENT, `coalesce(TG_ARGV[4], TG_ARGV[0] || '.updated')`));
    await db.query(`COMMENT ON FUNCTION audit.record_change IS
      'AFTER INSERT OR UPDATE … FOR EACH ROW, arguments: stream prefix, snapshot function(tenant, id), history table, its column for this entity, and, where it isn''t <prefix>.updated, the type of a change that leaves the status. Appends one event.'`);

    await db.query(`
CREATE FUNCTION audit.record_log_event(p_tenant bigint, p_type text, p_snapshot jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_stream text := 'log/' || p_tenant;
  v_last audit.events;
  v_actor uuid;
  v_occurred_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
  IF p_type NOT IN ('log.key-rotated', 'log.resumed') THEN
    RAISE EXCEPTION 'A log has no events of the type %', p_type USING ERRCODE = 'WB002';
  END IF;
  -- Whoever appends to the log holds its row, so this stream cannot fork either.
  PERFORM FROM audit.logs l WHERE l.tenant_id = p_tenant FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'Tenant % has no log in this context', p_tenant
      USING ERRCODE = 'WB001', HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, NULL, …);';
  END IF;
  SELECT u.id INTO STRICT v_actor FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.subject = 'system';
  SELECT e.* INTO v_last FROM audit.events e
  WHERE e.tenant_id = p_tenant AND e.stream = v_stream ORDER BY e.version DESC LIMIT 1;
  PERFORM audit.append(p_tenant, gen_random_uuid(), v_stream, coalesce(v_last.version, 0) + 1,
    greatest(v_occurred_us, v_last.occurred_us + 1), p_type, v_actor,
    jsonb_build_object('table', 'logs', 'reason', NULL, 'changes', NULL, 'snapshot', p_snapshot, 'requestId', NULL)::text,
    coalesce(v_last.event_hash, audit.genesis_hash(p_tenant, v_stream)));
  RETURN coalesce(v_last.version, 0) + 1;
END
$$`);
    await db.query(`COMMENT ON FUNCTION audit.record_log_event IS
      'Appends an event about the log itself to the stream log/<tenant>, as the tenant''s system user, and returns its version. For waybill_sealer, in the tenant''s context.'`);
    await db.query(`GRANT EXECUTE ON FUNCTION audit.record_log_event TO waybill_sealer`);
  }

  /** Events that are older than the log are sealed, too. */
  private async backlog(db: QueryRunner): Promise<void> {
    await db.query(`
ALTER TABLE audit.events NO FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.queue NO FORCE ROW LEVEL SECURITY;
INSERT INTO audit.queue (tenant_id, stream, version, occurred_us)
SELECT e.tenant_id, e.stream, e.version, e.occurred_us FROM audit.events e;
ALTER TABLE audit.queue FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.events FORCE ROW LEVEL SECURITY`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(recordChange(INSERT_EVENT, `TG_ARGV[0] || '.updated'`));
    await db.query(`
DROP FUNCTION audit.record_log_event, audit.append;
DROP TABLE audit.queue, ${IMMUTABLE.map((table) => `audit.${table}`).join(', ')}`);
    await db.query(`RESET ROLE`);
    await db.query(`REVOKE SELECT (tenant_id, id, subject) ON waybill.users FROM waybill_audit`);
  }
}

const APPEND_EVENT = `PERFORM audit.append(NEW.tenant_id, v_event_id, v_stream, NEW.version, v_occurred_us, v_type, v_actor, v_body, v_prev_hash)`;

/** As the migration of the events has it. */
const INSERT_EVENT = `INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
  VALUES (NEW.tenant_id, v_stream, NEW.version, v_event_id, v_type, v_actor, v_occurred_us, v_body, v_prev_hash,
          audit.event_hash(NEW.tenant_id, v_event_id, v_stream, NEW.version, v_occurred_us, v_type, v_actor, v_body, v_prev_hash, 1::smallint), 1)`;

function recordChange(append: string, typeOfUpdate: string): string {
  return `
CREATE OR REPLACE FUNCTION audit.record_change() RETURNS trigger
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
    v_type := ${typeOfUpdate};
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
  ${append};
  RETURN NULL;
END
$$`;
}
