CREATE FUNCTION waybill.sweep_keys(p_tenant bigint, p_limit int, OUT swept int, OUT backlog int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('waybill.sweep_keys'), hashint8(p_tenant)) THEN
    RETURN; -- another process sweeps this tenant
  END IF;
  PERFORM waybill.set_context(p_tenant, NULL, ARRAY['system'], 'sweep_keys');
  PERFORM waybill.set_context(p_tenant, waybill.system_user(p_tenant), ARRAY['system'], 'sweep_keys');
  -- Materialized: as a plain subquery it may run more than once within a join, and take more than a batch.
  WITH expired AS MATERIALIZED (
    SELECT e.idempotency_key FROM waybill.idempotency_keys e
    WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
    ORDER BY e.expires_at LIMIT least(p_limit, 10000) FOR UPDATE SKIP LOCKED
  )
  DELETE FROM waybill.idempotency_keys k USING expired
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = expired.idempotency_key;
  GET DIAGNOSTICS swept = ROW_COUNT;
  SELECT count(*) INTO backlog FROM (
    SELECT FROM waybill.idempotency_keys e WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
    LIMIT 100000) rest;
END
$$;

COMMENT ON FUNCTION waybill.sweep_keys IS
  'Removes one batch of a tenant''s expired keys, oldest first, as the tenant''s system user. swept is null when another process is at it; backlog counts at most 100000.';

CREATE FUNCTION waybill.erase_answers(p_tenant bigint, p_resources text[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_erased int;
BEGIN
  UPDATE waybill.idempotency_keys k SET response_body = NULL
  WHERE k.tenant_id = p_tenant AND k.resource = ANY (p_resources) AND k.response_body IS NOT NULL;
  GET DIAGNOSTICS v_erased = ROW_COUNT;
  RETURN v_erased;
END
$$;

COMMENT ON FUNCTION waybill.erase_answers IS
  'Blanks every stored answer that shows one of these resources (order/<id>). Belongs into the transaction that erases the person; one pass over the tenant''s keys, however many resources.';

GRANT EXECUTE ON FUNCTION waybill.sweep_keys, waybill.erase_answers TO waybill_app;
