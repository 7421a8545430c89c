CREATE FUNCTION waybill.begin_payment(
  p_tenant bigint, p_order uuid, p_payment uuid, p_attempt uuid, p_provider text, p_provider_key text,
  p_payment_method text, p_amount bigint) RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders := waybill.lock_order(p_tenant, p_order, NULL);
  v_amount bigint := coalesce(p_amount, v_order.total);
  v_tax bigint := waybill.share_of_tax(v_amount, nullif(v_order.total, 0), v_order.tax);
  v_refusal jsonb;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF v_order.id IS NULL THEN
    RETURN;
  END IF;
  IF v_order.status = 'canceled' THEN
    RAISE EXCEPTION 'order % is canceled: nothing is to be paid', p_order USING ERRCODE = 'WB031';
  END IF;
  v_refusal := waybill.payment_holding_order(p_tenant, p_order);
  IF v_refusal IS NOT NULL THEN
    PERFORM waybill.raise_refusal(v_refusal);
  END IF;
  IF v_amount NOT BETWEEN 1 AND v_order.total THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_order.total);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, payment_method, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'authorize', p_provider_key, p_payment_method, v_amount, v_tax)
  )
  INSERT INTO waybill.payments (tenant_id, id, order_id, provider, currency, amount, tax, created_at, updated_at)
  VALUES (p_tenant, p_payment, p_order, p_provider, v_order.currency, v_amount, v_tax, v_now, v_now);
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_payment IS
  'Puts on record that a provider is about to be asked to hold an amount (null: the order''s total). No row when there is no such order.';

CREATE FUNCTION waybill.begin_capture(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text, p_amount bigint)
RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_amount bigint := coalesce(p_amount, v_payment.authorized);
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status <> 'authorized' THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'captured');
  END IF;
  IF v_amount NOT BETWEEN 1 AND v_payment.authorized THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_payment.authorized);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'capture', p_provider_key, v_amount,
            waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax))
  )
  UPDATE waybill.payments p SET status = 'capturing' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_capture IS
  'Puts on record that a provider is about to be asked to take an amount (null: all that it holds). No row when there is no such payment.';

CREATE FUNCTION waybill.begin_void(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text)
RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status <> 'authorized' THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'voided');
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'void', p_provider_key, v_payment.amount, v_payment.tax)
  )
  UPDATE waybill.payments p SET status = 'voiding' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_void IS
  'Puts on record that a provider is about to be asked to let go of what it holds. No row when there is no such payment.';

CREATE FUNCTION waybill.begin_refund(
  p_tenant bigint, p_payment uuid, p_refund uuid, p_attempt uuid, p_provider_key text,
  p_amount bigint, p_tax bigint, p_reason text) RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_left bigint := v_payment.captured - v_payment.refunded - v_payment.refunding;
  v_left_tax bigint := v_payment.captured_tax - v_payment.refunded_tax - v_payment.refunding_tax;
  v_amount bigint := coalesce(p_amount, v_left);
  v_tax bigint := coalesce(p_tax, waybill.share_of_tax(v_amount, nullif(v_left, 0), v_left_tax));
  v_now timestamptz := clock_timestamp();
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status NOT IN ('captured', 'refunded') THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'refunded');
  END IF;
  IF v_left < 1 OR v_amount > v_left OR v_tax > v_left_tax OR v_amount - v_tax > v_left - v_left_tax THEN
    RAISE EXCEPTION 'payment % has % (tax %) left to refund, not % (tax %)', p_payment, v_left, v_left_tax, v_amount, v_tax
      USING ERRCODE = 'WB033', DETAIL = jsonb_build_object('left', v_left, 'leftTax', v_left_tax)::text;
  END IF;
  IF v_amount < 1 OR v_tax NOT BETWEEN 0 AND v_amount THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_left);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, refund_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, p_refund, 'refund', p_provider_key, v_amount, v_tax)
  ), refund AS (
    INSERT INTO waybill.refunds (tenant_id, id, payment_id, amount, tax, reason, created_at, updated_at)
    VALUES (p_tenant, p_refund, p_payment, v_amount, v_tax, p_reason, v_now, v_now)
  )
  UPDATE waybill.payments p SET refunding = p.refunding + v_amount, refunding_tax = p.refunding_tax + v_tax
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_refund IS
  'Promises an amount (null: all that is left) with the tax in it (null: in proportion) to a refund. No row when there is no such payment.';

GRANT EXECUTE ON FUNCTION waybill.begin_payment, waybill.begin_capture, waybill.begin_void, waybill.begin_refund TO waybill_app;
