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

COMMENT ON COLUMN audit.logs.origin IS 'Its first name; audit.keys has the generation that is appended after a restore.';

COMMENT ON TABLE audit.logs IS 'One log a tenant, made when its first event is sealed. Its row is the lock of whoever appends.';

CREATE TABLE audit.leaves (
  tenant_id  bigint NOT NULL,
  leaf_index bigint NOT NULL,
  stream     text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  sealed_us  bigint NOT NULL,
  signature  bytea NOT NULL,
  leaf_hash  waybill.bytes32 NOT NULL,
  CONSTRAINT leaves_pkey PRIMARY KEY (tenant_id, leaf_index),
  CONSTRAINT leaves_event_key UNIQUE (tenant_id, stream, version),
  CONSTRAINT leaves_index_range CHECK (leaf_index BETWEEN 0 AND 9007199254740991),
  CONSTRAINT leaves_signature_length CHECK (octet_length(signature) = 64)
);

COMMENT ON COLUMN audit.leaves.sealed_us IS 'When it was signed: microseconds since 1970-01-01T00:00:00Z by the clock of who signed. Never less than in the leaf before.';

CREATE TABLE audit.nodes (
  tenant_id  bigint NOT NULL,
  level      smallint NOT NULL,
  node_index bigint NOT NULL,
  hash       waybill.bytes32 NOT NULL,
  CONSTRAINT nodes_pkey PRIMARY KEY (tenant_id, level, node_index),
  CONSTRAINT nodes_level_check CHECK (level > 0 AND level % 8 = 0)
);

COMMENT ON TABLE audit.nodes IS
  'Roots of complete subtrees of 256, 65536, … leaves: level l, node i covers the leaves i * 2^l to (i + 1) * 2^l - 1. Nodes between are computed from at most 255 hashes.';

CREATE TABLE audit.checkpoints (
  tenant_id  bigint NOT NULL,
  size       bigint NOT NULL,
  root       waybill.bytes32 NOT NULL,
  note       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT checkpoints_pkey PRIMARY KEY (tenant_id, size)
);

CREATE TABLE audit.keys (
  tenant_id  bigint NOT NULL,
  generation integer NOT NULL,
  valid_from bigint NOT NULL,
  checkpoint_key waybill.bytes32 NOT NULL,
  event_key  waybill.bytes32 NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, generation, valid_from)
);

COMMENT ON TABLE audit.keys IS 'Ed25519 keys of each log, for whoever goes on with it. What a verifier believes are the log''s own events, which are signed.';

COMMENT ON COLUMN audit.keys.generation IS 'From 1; one more after each restore. From 2 on it is the last part of the log''s name.';

COMMENT ON COLUMN audit.keys.valid_from IS 'Index of the first leaf that the event key signs.';

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
  signature   bytea,
  CONSTRAINT verifications_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT verifications_verdict_check CHECK (verdict IN ('intact', 'tampered', 'unverifiable'))
);

COMMENT ON COLUMN audit.verifications.signature IS
  'By whoever verified, where everything was intact and a signing key at hand: a later verification need not read these leaves again.';

CREATE INDEX verifications_finished_idx ON audit.verifications (tenant_id, finished_at);

SELECT audit.make_append_only(t), audit.make_sealers(t)
FROM unnest('{audit.logs,audit.leaves,audit.nodes,audit.checkpoints,audit.keys,audit.verifications}'::regclass[]) AS t;

-- From the queue rows go when they are sealed, and only the append makes them.
SELECT audit.make_append_only('audit.queue', 'UPDATE OR TRUNCATE');

CREATE POLICY queue_seal ON audit.queue TO waybill_sealer USING (true) WITH CHECK (true);

-- To lock its row.
GRANT UPDATE ON audit.logs TO waybill_sealer;

CREATE POLICY queue_append ON audit.queue FOR INSERT TO waybill_audit WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY logs_lock ON audit.logs FOR UPDATE TO waybill_audit USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT DELETE ON audit.queue TO waybill_sealer;

CREATE FUNCTION audit.record_log_event(p_tenant bigint, p_type text, p_snapshot jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_stream text := 'log/' || p_tenant;
  v_last audit.events;
  v_actor uuid := waybill.system_user(p_tenant);
  v_occurred_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
  IF p_type NOT IN ('log.started', 'log.key-rotated', 'log.resumed') THEN
    RAISE EXCEPTION 'A log has no events of the type %', p_type USING ERRCODE = 'WB002';
  END IF;
  -- Whoever appends to the log holds its row, so this stream cannot fork either.
  PERFORM FROM audit.logs l WHERE l.tenant_id = p_tenant FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'Tenant % has no log in this context', p_tenant
      USING ERRCODE = 'WB001', HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, NULL, …);';
  END IF;
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
