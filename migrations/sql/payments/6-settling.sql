CREATE FUNCTION waybill.settle_payment_attempt(
  p_tenant bigint, p_attempt uuid, p_result text, p_provider_ref text, p_amount bigint, p_decline_code text)
RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_attempt waybill.payment_attempts;
  v_payment waybill.payments;
  v_amount bigint;
  v_tax bigint;
  v_most bigint;
  v_settled timestamptz;
BEGIN
  SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
  v_payment := waybill.lock_payment(p_tenant, v_attempt.payment_id);
  -- Again, under the lock: a webhook or another process may have settled it meanwhile.
  SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
  v_amount := coalesce(p_amount, v_attempt.amount);
  v_tax := CASE v_amount WHEN v_attempt.amount THEN v_attempt.tax
                         ELSE waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax) END;
  -- A provider that says it did another amount than it could: what it really did nobody here can tell.
  v_most := CASE v_attempt.operation WHEN 'authorize' THEN v_payment.amount WHEN 'capture' THEN v_payment.authorized ELSE v_attempt.amount END;
  IF p_result = 'succeeded' AND (v_amount NOT BETWEEN 1 AND v_most OR (v_attempt.operation = 'refund' AND v_amount <> v_most)) THEN
    p_result := 'needs_reconciliation';
  END IF;
  v_settled := CASE WHEN p_result <> 'needs_reconciliation' THEN clock_timestamp() END;

  IF v_attempt.settled_at IS NOT NULL OR v_attempt.status = p_result THEN
    NULL;
  ELSIF v_attempt.operation = 'refund' THEN
    WITH attempt AS (
      UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
      WHERE a.tenant_id = p_tenant AND a.id = p_attempt
    ), refund AS (
      UPDATE waybill.refunds r
      SET status = CASE p_result WHEN 'refused' THEN 'failed' ELSE p_result END,
          provider_ref = coalesce(r.provider_ref, p_provider_ref), decline_code = p_decline_code
      WHERE r.tenant_id = p_tenant AND r.id = v_attempt.refund_id
    )
    UPDATE waybill.payments p
    SET refunding = p.refunding - v_attempt.amount, refunding_tax = p.refunding_tax - v_attempt.tax,
        refunded = p.refunded + CASE p_result WHEN 'succeeded' THEN v_attempt.amount ELSE 0 END,
        refunded_tax = p.refunded_tax + CASE p_result WHEN 'succeeded' THEN v_attempt.tax ELSE 0 END,
        status = CASE WHEN p_result = 'succeeded' AND p.refunded + v_attempt.amount = p.captured THEN 'refunded' ELSE p.status END
    WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id AND p_result <> 'needs_reconciliation';
  ELSE
    WITH attempt AS (
      UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
      WHERE a.tenant_id = p_tenant AND a.id = p_attempt
    )
    UPDATE waybill.payments p
    SET provider_ref = coalesce(p.provider_ref, p_provider_ref),
        decline_code = coalesce(p_decline_code, p.decline_code),
        authorized = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'authorize' THEN v_amount ELSE p.authorized END,
        captured = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_amount ELSE p.captured END,
        captured_tax = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_tax ELSE p.captured_tax END,
        status = CASE p_result
          WHEN 'needs_reconciliation' THEN p_result
          WHEN 'refused' THEN CASE v_attempt.operation WHEN 'authorize' THEN 'declined' ELSE 'authorized' END
          ELSE CASE v_attempt.operation WHEN 'authorize' THEN 'authorized' WHEN 'capture' THEN 'captured' ELSE 'voided' END END
    WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id;
  END IF;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = v_attempt.payment_id;
END
$$;

COMMENT ON FUNCTION waybill.settle_payment_attempt IS
  'Writes down how an attempt ended: succeeded, refused, or needs_reconciliation when nobody can tell, as with an amount that can''t be. An attempt that has ended is left as it is.';

GRANT EXECUTE ON FUNCTION waybill.settle_payment_attempt TO waybill_app;
