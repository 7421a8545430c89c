CREATE FUNCTION waybill.claim_key(
  p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text, p_key text, p_hash bytea,
  p_lease_token uuid, p_lease interval, p_key_digest text DEFAULT NULL,
  OUT outcome text, OUT retry_after int, OUT claimed_at timestamptz,
  OUT answer_status smallint, OUT answer_headers jsonb, OUT answer_body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_key waybill.idempotency_keys;
  v_locked boolean;
  v_now timestamptz := clock_timestamp();
BEGIN
  PERFORM waybill.set_context(p_tenant, p_actor, p_roles, p_request_id, p_key_digest);
  v_locked := pg_try_advisory_xact_lock(hashtextextended(p_key, p_tenant));
  PERFORM set_config('waybill.locked_key', CASE WHEN v_locked THEN p_key ELSE '' END, true);
  LOOP
    -- A statement of its own has a snapshot of its own: with the lock it sees whatever its last holder has committed.
    SELECT k.* INTO v_key FROM waybill.idempotency_keys k WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key;
    IF NOT FOUND THEN
      IF NOT v_locked THEN
        outcome := waybill.refuse_writes('in_flight');
        RETURN;
      END IF;
      -- Without a lease the row is written once, by complete_key: nobody else can have the key before this transaction ends.
      IF p_lease_token IS NOT NULL THEN
        INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, lease_token, lease_until, created_at)
        VALUES (p_tenant, p_key, p_hash, 'processing', p_lease_token, v_now + p_lease, v_now);
      END IF;
      outcome := 'claimed';
      RETURN;
    END IF;

    IF v_key.expires_at <= v_now THEN
      IF NOT v_locked THEN
        outcome := waybill.refuse_writes('in_flight');
        RETURN;
      END IF;
      DELETE FROM waybill.idempotency_keys k
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.expires_at <= v_now;
      CONTINUE;
    END IF;

    IF v_key.request_hash <> p_hash THEN
      outcome := waybill.refuse_writes('reused');
      RETURN;
    END IF;

    IF v_key.status = 'processing' THEN
      -- Whoever has a lease may be away on a call, so only a caller who brings a lease may take over from it.
      IF NOT v_locked OR v_key.lease_until > v_now OR (v_key.lease_token IS NOT NULL AND p_lease_token IS NULL) THEN
        outcome := waybill.refuse_writes('in_flight');
        retry_after := greatest(1, ceil(extract(epoch FROM v_key.lease_until - v_now)));
        RETURN;
      END IF;
      UPDATE waybill.idempotency_keys k
      SET lease_token = p_lease_token, lease_until = v_now + p_lease, attempt = k.attempt + 1
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
        AND k.lease_token IS NOT DISTINCT FROM v_key.lease_token AND k.lease_until IS NOT DISTINCT FROM v_key.lease_until;
      CONTINUE WHEN NOT FOUND; -- its worker finished after all
      outcome := CASE WHEN v_key.lease_token IS NULL THEN 'claimed' ELSE 'taken_over' END;
      RETURN;
    END IF;

    outcome := waybill.refuse_writes(CASE WHEN v_key.response_body IS NULL THEN 'erased' ELSE 'replay' END);
    claimed_at := v_key.created_at;
    answer_status := v_key.response_status;
    answer_headers := v_key.response_headers;
    answer_body := v_key.response_body;
    RETURN;
  END LOOP;
END
$$;

COMMENT ON FUNCTION waybill.claim_key IS
  'Sets the context and claims a key for this transaction. outcome: claimed, taken_over (from a lapsed lease), replay (with the answer), reused, in_flight, erased. A lease is given for work that goes on after COMMIT.';

CREATE FUNCTION waybill.complete_key(
  p_tenant bigint, p_key text, p_hash bytea, p_lease_token uuid, p_status smallint, p_headers jsonb, p_body bytea,
  p_resource text, p_default_ttl interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_status text := CASE WHEN p_status < 300 THEN 'completed' ELSE 'failed' END;
  v_now timestamptz := clock_timestamp();
  v_expires_at timestamptz;
BEGIN
  SELECT coalesce(v_now + p.ttl, 'infinity') INTO v_expires_at FROM waybill.idempotency_policies p
  WHERE p.tenant_id = p_tenant AND NOT p.is_default;
  IF NOT FOUND THEN
    v_expires_at := coalesce(v_now + p_default_ttl, 'infinity');
  END IF;
  IF p_lease_token IS NULL THEN
    -- Nothing, where the transaction that claimed the key was another one.
    INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, response_status,
                                          response_headers, response_body, resource, created_at, expires_at)
    SELECT p_tenant, p_key, p_hash, v_status, p_status, p_headers, p_body, p_resource, now(), v_expires_at
    WHERE current_setting('waybill.locked_key', true) = p_key;
  ELSE
    UPDATE waybill.idempotency_keys k
    SET status = v_status, lease_token = NULL, lease_until = NULL, response_status = p_status,
        response_headers = p_headers, response_body = p_body, resource = p_resource, expires_at = v_expires_at
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
      AND k.lease_token = p_lease_token;
  END IF;
  IF NOT FOUND THEN
    -- An error, so that the COMMIT behind it becomes a ROLLBACK of everything else, too.
    RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.complete_key IS
  'Stores the answer under a key that this transaction has claimed (by the request''s hash) or that its worker holds (by the lease). The default time to live is for tenants without a policy; null is for ever.';

GRANT EXECUTE ON FUNCTION waybill.claim_key, waybill.complete_key TO waybill_app;
