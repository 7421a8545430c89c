CREATE FUNCTION waybill.start_call(p_tenant bigint, p_key text, p_lease_token uuid, p_resource text, p_provider_ref text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE waybill.idempotency_keys k
  SET call_started_at = clock_timestamp(), resource = p_resource, provider_ref = p_provider_ref
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.start_call IS
  'Puts on record, in the transaction that claimed the key, that a call is about to be made: of what, and under which name the other system knows it.';

CREATE FUNCTION waybill.put_back_key(p_tenant bigint, p_key text, p_lease_token uuid, p_wait interval) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE waybill.idempotency_keys k SET lease_until = clock_timestamp() + p_wait
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token
$$;

COMMENT ON FUNCTION waybill.put_back_key IS
  'Ends a lease early, for a call whose result is not known yet: after the wait a retry or the recoverer takes over.';

CREATE FUNCTION waybill.take_abandoned_key(
  p_tenant bigint, p_lease_token uuid, p_lease interval, OUT key text, OUT resource text, OUT provider_ref text,
  OUT call_started_at timestamptz, OUT attempt int)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE waybill.idempotency_keys k
  SET lease_token = p_lease_token, lease_until = clock_timestamp() + p_lease, attempt = k.attempt + 1
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = (
    SELECT e.idempotency_key FROM waybill.idempotency_keys e
    WHERE e.tenant_id = p_tenant AND e.lease_token IS NOT NULL AND e.lease_until <= statement_timestamp()
      AND e.call_started_at IS NOT NULL
    ORDER BY e.lease_until LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING k.idempotency_key, k.resource, k.provider_ref, k.call_started_at, k.attempt
$$;

COMMENT ON FUNCTION waybill.take_abandoned_key IS
  'Takes over one key whose lease has lapsed while its call was under way; nulls when there is none. Workers don''t wait for each other.';

GRANT EXECUTE ON FUNCTION waybill.start_call, waybill.put_back_key, waybill.take_abandoned_key TO waybill_app;
