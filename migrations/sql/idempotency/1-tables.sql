CREATE TABLE waybill.idempotency_keys (
  tenant_id        bigint NOT NULL,
  idempotency_key  text COLLATE "C" NOT NULL,
  request_hash     bytea NOT NULL,
  status           text COLLATE "C" NOT NULL,
  lease_token      uuid,
  lease_until      timestamptz,
  attempt          int NOT NULL DEFAULT 1,
  call_started_at  timestamptz,
  provider_ref     text,
  resource         text COLLATE "C",
  response_status  smallint,
  response_headers jsonb,
  response_body    bytea,
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz,
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, idempotency_key),
  CONSTRAINT idempotency_keys_key_format CHECK (idempotency_key ~ '^[\x21-\x2b\x2d-\x7e]{1,255}$'),
  CONSTRAINT idempotency_keys_hash_length CHECK (octet_length(request_hash) = 32),
  CONSTRAINT idempotency_keys_status_check CHECK (status IN ('processing', 'completed', 'failed')),
  CONSTRAINT idempotency_keys_lease_whole CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
  CONSTRAINT idempotency_keys_lease_processing CHECK (lease_token IS NULL OR status = 'processing'),
  CONSTRAINT idempotency_keys_call_leased CHECK (call_started_at IS NULL OR lease_token IS NOT NULL OR status <> 'processing'),
  CONSTRAINT idempotency_keys_attempt_positive CHECK (attempt >= 1),
  CONSTRAINT idempotency_keys_answer_final CHECK (CASE WHEN status = 'processing'
    THEN num_nonnulls(response_status, response_headers, response_body, expires_at) = 0
    ELSE num_nulls(response_status, response_headers, expires_at) = 0 END),
  CONSTRAINT idempotency_keys_answer_kind CHECK (
    (status <> 'completed' OR response_status BETWEEN 200 AND 299)
    AND (status <> 'failed' OR response_status BETWEEN 400 AND 499)),
  CONSTRAINT idempotency_keys_headers_object CHECK (jsonb_typeof(response_headers) = 'object')
);

COMMENT ON TABLE waybill.idempotency_keys IS
  'What was answered under an Idempotency-Key. A row of a request whose effects are all in this database is never seen as processing: key, effect and answer are committed together.';

COMMENT ON COLUMN waybill.idempotency_keys.response_body IS
  'The bytes as they were sent; empty for an answer without a body, null once they were erased.';

COMMENT ON COLUMN waybill.idempotency_keys.resource IS
  'What the answer shows, such as order/<id>: erasing a person blanks the answers that show their orders.';

COMMENT ON COLUMN waybill.idempotency_keys.lease_until IS
  'While a worker is away on a call to another system the key is its own until then; afterwards another may take it over.';

CREATE INDEX idempotency_keys_expires_idx ON waybill.idempotency_keys (tenant_id, expires_at) WHERE status <> 'processing';

CREATE TABLE waybill.idempotency_policies (
  tenant_id bigint NOT NULL,
  ttl       interval,
  CONSTRAINT idempotency_policies_pkey PRIMARY KEY (tenant_id),
  CONSTRAINT idempotency_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants (id),
  CONSTRAINT idempotency_policies_ttl_positive CHECK (ttl > interval '0')
);

COMMENT ON TABLE waybill.idempotency_policies IS
  'How long a tenant''s keys are remembered, counted from the answer; null is for ever. A tenant without a row has the service''s IDEMPOTENCY_TTL.';

ALTER TABLE waybill.idempotency_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY idempotency_keys_tenant ON waybill.idempotency_keys USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER idempotency_keys_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.idempotency_keys
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

CREATE TRIGGER idempotency_keys_00_no_truncate BEFORE TRUNCATE ON waybill.idempotency_keys
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('without its keys a retry would do everything twice');

ALTER TABLE waybill.idempotency_policies ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY idempotency_policies_tenant ON waybill.idempotency_policies USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER idempotency_policies_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.idempotency_policies
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

CREATE TRIGGER idempotency_policies_00_no_truncate BEFORE TRUNCATE ON waybill.idempotency_policies
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('without its keys a retry would do everything twice');

CREATE TRIGGER idempotency_keys_10_identity BEFORE UPDATE ON waybill.idempotency_keys FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.idempotency_key) IS DISTINCT FROM (OLD.tenant_id, OLD.idempotency_key))
  EXECUTE FUNCTION waybill.refuse_change('a key stays with its tenant');

CREATE TRIGGER idempotency_keys_10_expired BEFORE DELETE ON waybill.idempotency_keys FOR EACH ROW
  WHEN (OLD.status = 'processing' OR OLD.expires_at > clock_timestamp())
  EXECUTE FUNCTION waybill.refuse_change('only finished keys that have expired are swept');

GRANT SELECT ON waybill.idempotency_keys, waybill.idempotency_policies TO waybill_app;

CREATE INDEX idempotency_keys_leases_idx ON waybill.idempotency_keys (tenant_id, lease_until) WHERE lease_token IS NOT NULL;
