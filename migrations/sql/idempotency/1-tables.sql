-- A bound within the expression, such as {1,255}, makes it many times as dear as a length beside it.
CREATE DOMAIN waybill.idempotency_key AS text COLLATE "C"
  CONSTRAINT idempotency_key_format CHECK (length(VALUE) <= 255 AND VALUE ~ '^[\x21-\x2b\x2d-\x7e]+$');

CREATE DOMAIN waybill.key_status AS text COLLATE "C"
  CONSTRAINT key_status_check CHECK (VALUE IN ('processing', 'completed', 'failed'));

CREATE TABLE waybill.idempotency_keys (
  tenant_id        bigint NOT NULL,
  idempotency_key  waybill.idempotency_key NOT NULL,
  request_hash     waybill.bytes32 NOT NULL,
  status           waybill.key_status NOT NULL,
  lease_token      uuid,
  lease_until      timestamptz,
  attempt          int NOT NULL DEFAULT 1,
  call_started_at  timestamptz,
  provider_ref     text,
  resource         text COLLATE "C",
  response_status  smallint,
  response_headers waybill.json_object,
  response_body    bytea,
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz,
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, idempotency_key)
);

COMMENT ON TABLE waybill.idempotency_keys IS
  'What was answered under an Idempotency-Key. A row of a request whose effects are all in this database is never seen as processing: key, effect and answer are committed together.';

COMMENT ON COLUMN waybill.idempotency_keys.response_body IS
  'The bytes as they were sent; empty for an answer without a body, null once they were erased.';

COMMENT ON COLUMN waybill.idempotency_keys.resource IS
  'What the answer shows, such as order/<id>: erasing a person blanks the answers that show their orders.';

COMMENT ON COLUMN waybill.idempotency_keys.lease_until IS
  'While a worker is away on a call to another system the key is its own until then; afterwards another may take it over.';

-- Partial, so that no statement by key can be planned with it: on a table without statistics it looks as good as the
-- primary key, and reads all of a tenant's rows.
CREATE INDEX idempotency_keys_expires_idx ON waybill.idempotency_keys (tenant_id, expires_at) WHERE status <> 'processing';

CREATE INDEX idempotency_keys_leases_idx ON waybill.idempotency_keys (tenant_id, lease_until) WHERE lease_token IS NOT NULL;

SELECT waybill.make_tenant_table('waybill.idempotency_keys', 'without its keys a retry would do everything twice', 'TRUNCATE');

CREATE FUNCTION waybill.refuse_idempotency_key(k waybill.idempotency_keys) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (k.lease_token IS NULL) <> (k.lease_until IS NULL) THEN
    PERFORM waybill.refuse_row('idempotency_keys_lease_whole', 'a lease has a token and an end, or there is none', k::text);
  ELSIF k.attempt < 1 THEN
    PERFORM waybill.refuse_row('idempotency_keys_attempt_positive', 'attempts count from 1', k::text);
  ELSIF k.status = 'processing' THEN
    IF num_nonnulls(k.response_status, k.response_headers, k.response_body, k.expires_at) > 0 THEN
      PERFORM waybill.refuse_row('idempotency_keys_answer_final', 'a key that is in use has no answer yet', k::text);
    ELSIF k.call_started_at IS NOT NULL AND k.lease_token IS NULL THEN
      PERFORM waybill.refuse_row('idempotency_keys_call_leased', 'whoever makes a call has a lease', k::text);
    END IF;
  ELSIF k.lease_token IS NOT NULL THEN
    PERFORM waybill.refuse_row('idempotency_keys_lease_processing', 'an answered key has no lease', k::text);
  ELSIF num_nulls(k.response_status, k.response_headers, k.expires_at) > 0 THEN
    PERFORM waybill.refuse_row('idempotency_keys_answer_final', 'an answered key has status, headers and an end', k::text);
  ELSIF (k.status = 'completed') <> (k.response_status / 100 = 2) OR (k.status = 'failed') <> (k.response_status / 100 = 4) THEN
    PERFORM waybill.refuse_row('idempotency_keys_answer_kind', 'completed is answered by 2xx, failed by 4xx', k::text);
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.refuse_idempotency_key IS 'Refuses a key by the first rule of several columns that it breaks.';

CREATE FUNCTION waybill.guard_idempotency_key() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.status = 'processing' OR OLD.expires_at > clock_timestamp() THEN
      RAISE EXCEPTION 'DELETE on waybill.idempotency_keys is refused: only finished keys that have expired are swept'
        USING ERRCODE = 'WB002';
    END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.tenant_id, NEW.idempotency_key) IS DISTINCT FROM (OLD.tenant_id, OLD.idempotency_key) THEN
      RAISE EXCEPTION 'UPDATE on waybill.idempotency_keys is refused: a key stays with its tenant' USING ERRCODE = 'WB002';
    END IF;
  END IF;
  -- The rules as a new answered key keeps them, which is nearly every row; any other is asked rule by rule.
  IF TG_OP = 'INSERT' AND NEW.lease_token IS NULL AND NEW.lease_until IS NULL AND NEW.response_headers IS NOT NULL
     AND NEW.expires_at IS NOT NULL AND NEW.attempt = 1
     AND ((NEW.status = 'completed' AND NEW.response_status / 100 = 2) OR (NEW.status = 'failed' AND NEW.response_status / 100 = 4)) THEN
    RETURN NEW;
  END IF;
  PERFORM waybill.refuse_idempotency_key(NEW);
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_idempotency_key IS
  'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH ROW of keys: rules of several columns; a key stays with its tenant, and goes only when it has expired.';

CREATE TRIGGER idempotency_keys_20_guard BEFORE INSERT OR UPDATE OR DELETE ON waybill.idempotency_keys
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_idempotency_key();

CREATE TABLE waybill.idempotency_policies (
  tenant_id  bigint NOT NULL,
  ttl        interval,
  is_default boolean NOT NULL DEFAULT false,
  id         uuid NOT NULL DEFAULT gen_random_uuid(),
  version    int NOT NULL DEFAULT 1,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT idempotency_policies_pkey PRIMARY KEY (tenant_id),
  CONSTRAINT idempotency_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants (id),
  CONSTRAINT idempotency_policies_ttl_positive CHECK (ttl > interval '0'),
  CONSTRAINT idempotency_policies_default CHECK (NOT is_default OR ttl IS NULL)
);

COMMENT ON TABLE waybill.idempotency_policies IS
  'How long a tenant''s keys are remembered, counted from the answer; null is for ever. A tenant without a row, or with is_default, has the service''s IDEMPOTENCY_TTL.';

SELECT waybill.make_tenant_table('waybill.idempotency_policies', 'set is_default instead: its history refers to this row');

CREATE FUNCTION waybill.idempotency_policy_snapshot(p waybill.idempotency_policies) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', p.id, 'isDefault', p.is_default, 'ttlSeconds', extract(epoch FROM p.ttl)::bigint,
                           'version', p.version, 'updatedAt', waybill.json_time(p.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.idempotency_policy_snapshot IS
  'How long keys are remembered, as events keep it: ttlSeconds null with isDefault false is for ever.';

SELECT waybill.attach_stream('idempotency_policy', 'waybill.idempotency_policies');
