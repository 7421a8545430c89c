CREATE FUNCTION waybill.apply_payment_fact(
  p_tenant bigint, p_payment uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_pending waybill.payment_attempts;
  v_operation text := CASE p_fact WHEN 'captured' THEN 'capture' WHEN 'voided' THEN 'void' ELSE 'authorize' END;
  v_is_mine boolean;
BEGIN
  SELECT a.* INTO v_pending FROM waybill.payment_attempts a
  WHERE a.tenant_id = p_tenant AND a.payment_id = p_payment AND a.refund_id IS NULL
    AND a.status IN ('processing', 'needs_reconciliation');
  v_is_mine := FOUND AND v_pending.operation = v_operation;

  -- Facts come late and in any order. What a payment has left behind says nothing new of it.
  IF v_payment.status IN ('declined', 'captured', 'voided', 'refunded')
     OR (p_fact IN ('authorized', 'declined') AND NOT v_is_mine) THEN
    RETURN 'nothing-to-do';
  END IF;
  IF v_is_mine THEN
    PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE p_fact WHEN 'declined' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, p_amount, p_decline_code);
    RETURN 'applied';
  END IF;
  -- Captured or let go, but not by what is pending here: a hold was there in any case, and a rival step came too late.
  IF v_pending.id IS NOT NULL THEN
    PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE v_pending.operation WHEN 'authorize' THEN 'succeeded' ELSE 'refused' END,
                                           p_provider_ref, NULL, CASE WHEN v_pending.operation <> 'authorize' THEN 'already_' || p_fact END);
  END IF;
  UPDATE waybill.payments p
  SET status = p_fact,
      captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.authorized) ELSE p.captured END,
      captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.authorized), p.amount, p.tax) ELSE p.captured_tax END,
      provider_ref = coalesce(p.provider_ref, p_provider_ref)
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN 'applied';
END
$$;

COMMENT ON FUNCTION waybill.apply_payment_fact IS
  'Brings a payment to what its provider says happened: authorized, declined, captured or voided. Returns applied or nothing-to-do.';

CREATE FUNCTION waybill.apply_refund_fact(p_tenant bigint, p_refund uuid, p_fact text, p_provider_ref text, p_decline_code text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_refund waybill.refunds;
  v_attempt uuid;
BEGIN
  PERFORM waybill.lock_payment(p_tenant, r.payment_id) FROM waybill.refunds r WHERE r.tenant_id = p_tenant AND r.id = p_refund;
  SELECT r.* INTO v_refund FROM waybill.refunds r WHERE r.tenant_id = p_tenant AND r.id = p_refund FOR NO KEY UPDATE;
  IF v_refund.status IN ('processing', 'needs_reconciliation') THEN
    SELECT a.id INTO STRICT v_attempt FROM waybill.payment_attempts a
    WHERE a.tenant_id = p_tenant AND a.refund_id = p_refund AND a.settled_at IS NULL;
    PERFORM waybill.settle_payment_attempt(p_tenant, v_attempt, CASE p_fact WHEN 'failed' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, NULL, p_decline_code);
    RETURN 'applied';
  END IF;
  IF v_refund.status <> 'succeeded' OR p_fact <> 'failed' THEN
    RETURN 'nothing-to-do';
  END IF;
  -- A bank can send a refund back days later. The payment holds the money again, and is live again unless another one is.
  WITH refund AS (
    UPDATE waybill.refunds r SET status = 'failed', decline_code = p_decline_code WHERE r.tenant_id = p_tenant AND r.id = p_refund
  )
  UPDATE waybill.payments p
  SET refunded = p.refunded - v_refund.amount, refunded_tax = p.refunded_tax - v_refund.tax,
      status = CASE WHEN p.status = 'refunded' AND NOT EXISTS (
        SELECT FROM waybill.payments o WHERE o.tenant_id = p_tenant AND o.order_id = p.order_id AND o.id <> p.id
          AND o.status NOT IN ('declined', 'voided', 'refunded')) THEN 'captured' ELSE p.status END
  WHERE p.tenant_id = p_tenant AND p.id = v_refund.payment_id;
  RETURN 'applied';
END
$$;

COMMENT ON FUNCTION waybill.apply_refund_fact IS
  'Brings a refund to what its provider says happened: succeeded or failed, also long after it succeeded. Returns applied or nothing-to-do.';

CREATE FUNCTION waybill.keep_webhook_event(
  p_tenant bigint, p_provider text, p_event text, p_type text, p_digest bytea, p_provider_key text, p_provider_ref text, p_subject text,
  p_fact text, p_amount bigint, p_decline_code text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_attempt record;
  v_outcome text := 'unknown';
BEGIN
  -- A second delivery of the same event waits here for the first one.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant || '/' || p_provider || '/' || p_event, 20));
  IF EXISTS (SELECT FROM waybill.payment_webhook_events e
             WHERE e.tenant_id = p_tenant AND e.provider = p_provider AND e.event = p_event) THEN
    RETURN 'seen';
  END IF;
  SELECT a.payment_id, a.refund_id INTO v_attempt
  FROM waybill.payment_attempts a JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.id = a.payment_id
  WHERE a.tenant_id = p_tenant AND a.provider_key = p_provider_key AND p.provider = p_provider;
  IF v_attempt.payment_id IS NOT NULL AND p_fact IS NOT NULL THEN
    v_outcome := CASE
      WHEN p_subject = 'payment' THEN waybill.apply_payment_fact(p_tenant, v_attempt.payment_id, p_fact, p_provider_ref, p_amount, p_decline_code)
      WHEN v_attempt.refund_id IS NOT NULL THEN waybill.apply_refund_fact(p_tenant, v_attempt.refund_id, p_fact, p_provider_ref, p_decline_code)
      ELSE 'unknown' END;
  END IF;
  INSERT INTO waybill.payment_webhook_events (tenant_id, provider, event, type, payment_id, outcome, digest)
  VALUES (p_tenant, p_provider, p_event, p_type, v_attempt.payment_id, v_outcome, p_digest);
  RETURN v_outcome;
END
$$;

COMMENT ON FUNCTION waybill.keep_webhook_event IS
  'Keeps a provider''s event and applies its fact, once. Returns applied, nothing-to-do, unknown, or seen for one that came before.';

GRANT EXECUTE ON FUNCTION waybill.keep_webhook_event TO waybill_app;
