GRANT SELECT (tenant_id, id, subject) ON waybill.users TO waybill_audit;

SET LOCAL ROLE waybill_audit;

CREATE TABLE audit.queue (
  tenant_id   bigint NOT NULL,
  stream      text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  occurred_us bigint NOT NULL,
  CONSTRAINT queue_pkey PRIMARY KEY (tenant_id, stream, version)
);

COMMENT ON TABLE audit.queue IS
  'Events that are not sealed yet. The append writes a row, the sealing takes it away; nothing depends on the order of commits.';

CREATE TABLE audit.logs (
  tenant_id  bigint NOT NULL,
  origin     text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT logs_pkey PRIMARY KEY (tenant_id)
);

COMMENT ON TABLE audit.logs IS 'One log a tenant, made when its first event is sealed. Its row is the lock of whoever appends.';

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
);

CREATE TABLE audit.nodes (
  tenant_id  bigint NOT NULL,
  level      smallint NOT NULL,
  node_index bigint NOT NULL,
  hash       bytea NOT NULL,
  CONSTRAINT nodes_pkey PRIMARY KEY (tenant_id, level, node_index),
  CONSTRAINT nodes_level_check CHECK (level > 0 AND level % 8 = 0),
  CONSTRAINT nodes_hash_length CHECK (octet_length(hash) = 32)
);

COMMENT ON TABLE audit.nodes IS
  'Roots of complete subtrees of 256, 65536, … leaves: level l, node i covers the leaves i * 2^l to (i + 1) * 2^l - 1. Nodes between are computed from at most 255 hashes.';

CREATE TABLE audit.checkpoints (
  tenant_id  bigint NOT NULL,
  size       bigint NOT NULL,
  root       bytea NOT NULL,
  note       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT checkpoints_pkey PRIMARY KEY (tenant_id, size),
  CONSTRAINT checkpoints_root_length CHECK (octet_length(root) = 32)
);

CREATE TABLE audit.keys (
  tenant_id  bigint NOT NULL,
  valid_from bigint NOT NULL,
  public_key bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, valid_from),
  CONSTRAINT keys_public_key_length CHECK (octet_length(public_key) = 32)
);

COMMENT ON COLUMN audit.keys.valid_from IS 'Index of the first leaf that this Ed25519 key signs.';

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
);

CREATE INDEX verifications_finished_idx ON audit.verifications (tenant_id, finished_at);

ALTER TABLE audit.logs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY logs_tenant ON audit.logs FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY logs_seal ON audit.logs TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.logs TO waybill_owner, waybill_app, waybill_sealer;

ALTER TABLE audit.leaves ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY leaves_tenant ON audit.leaves FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY leaves_seal ON audit.leaves TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.leaves TO waybill_owner, waybill_app, waybill_sealer;

ALTER TABLE audit.nodes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY nodes_tenant ON audit.nodes FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY nodes_seal ON audit.nodes TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.nodes TO waybill_owner, waybill_app, waybill_sealer;

ALTER TABLE audit.checkpoints ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY checkpoints_tenant ON audit.checkpoints FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY checkpoints_seal ON audit.checkpoints TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.checkpoints TO waybill_owner, waybill_app, waybill_sealer;

ALTER TABLE audit.keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY keys_tenant ON audit.keys FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY keys_seal ON audit.keys TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.keys TO waybill_owner, waybill_app, waybill_sealer;

ALTER TABLE audit.verifications ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY verifications_tenant ON audit.verifications FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY verifications_seal ON audit.verifications TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.verifications TO waybill_owner, waybill_app, waybill_sealer;

ALTER TABLE audit.queue ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY queue_tenant ON audit.queue FOR SELECT USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY queue_seal ON audit.queue TO waybill_sealer USING (true) WITH CHECK (true);

GRANT SELECT ON audit.queue TO waybill_owner, waybill_app, waybill_sealer;

GRANT INSERT ON audit.logs TO waybill_sealer;

CREATE TRIGGER logs_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.logs
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.logs ENABLE ALWAYS TRIGGER logs_00_append_only;

GRANT INSERT ON audit.leaves TO waybill_sealer;

CREATE TRIGGER leaves_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.leaves
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.leaves ENABLE ALWAYS TRIGGER leaves_00_append_only;

GRANT INSERT ON audit.nodes TO waybill_sealer;

CREATE TRIGGER nodes_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.nodes
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.nodes ENABLE ALWAYS TRIGGER nodes_00_append_only;

GRANT INSERT ON audit.checkpoints TO waybill_sealer;

CREATE TRIGGER checkpoints_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.checkpoints
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.checkpoints ENABLE ALWAYS TRIGGER checkpoints_00_append_only;

GRANT INSERT ON audit.keys TO waybill_sealer;

CREATE TRIGGER keys_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.keys
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.keys ENABLE ALWAYS TRIGGER keys_00_append_only;

GRANT INSERT ON audit.verifications TO waybill_sealer;

CREATE TRIGGER verifications_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.verifications
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.verifications ENABLE ALWAYS TRIGGER verifications_00_append_only;

GRANT UPDATE ON audit.logs TO waybill_sealer;

CREATE POLICY queue_append ON audit.queue FOR INSERT TO waybill_audit WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY logs_lock ON audit.logs FOR UPDATE TO waybill_audit USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT DELETE ON audit.queue TO waybill_sealer;

CREATE TRIGGER queue_00_no_update BEFORE UPDATE OR TRUNCATE ON audit.queue
  FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();

ALTER TABLE audit.queue ENABLE ALWAYS TRIGGER queue_00_no_update;

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
$$;

COMMENT ON FUNCTION audit.record_log_event IS
  'Appends an event about the log itself to the stream log/<tenant>, as the tenant''s system user, and returns its version. For waybill_sealer, in the tenant''s context.';

GRANT EXECUTE ON FUNCTION audit.record_log_event TO waybill_sealer;

RESET ROLE;
