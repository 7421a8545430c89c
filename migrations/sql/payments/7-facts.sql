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

  IF p_fact = 'captured' AND (v_payment.status = 'voided'
                              OR v_payment.status IN ('captured', 'refunded') AND p_amount <> v_payment.captured) THEN
    RAISE EXCEPTION 'the provider took % of a payment that is %, with % captured', coalesce(p_amount::text, 'money'), v_payment.status, v_payment.captured
      USING ERRCODE = 'WB034';
  END IF;
  -- After a decline, only what the provider holds or took all the same is news: by another card, or by hand.
  IF v_payment.status = 'declined' AND p_fact IN ('authorized', 'captured') THEN
    UPDATE waybill.payments p
    SET status = p_fact, authorized = coalesce(p_amount, p.amount), provider_ref = coalesce(p.provider_ref, p_provider_ref),
        captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.amount) ELSE 0 END,
        captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.amount), p.amount, p.tax) ELSE 0 END
    WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN 'applied';
  END IF;
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
  'Brings a payment to what its provider says happened: authorized, declined, captured or voided. Returns applied or nothing-to-do; refuses what can''t be.';

CREATE FUNCTION waybill.book_foreign_refund(
  p_payment waybill.payments, p_refund uuid, p_provider_ref text, p_amount bigint, p_reason text, p_cause text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_left bigint := p_payment.captured - p_payment.refunded - p_payment.refunding;
  v_left_tax bigint := p_payment.captured_tax - p_payment.refunded_tax - p_payment.refunding_tax;
  v_tax bigint := waybill.share_of_tax(p_amount, nullif(v_left, 0), v_left_tax);
  v_now timestamptz := clock_timestamp();
BEGIN
  IF p_amount BETWEEN 1 AND v_left THEN
    INSERT INTO waybill.refunds (tenant_id, id, payment_id, amount, tax, reason, cause, provider_ref, created_at, updated_at)
    VALUES (p_payment.tenant_id, p_refund, p_payment.id, p_amount, v_tax, p_reason, p_cause, p_provider_ref, v_now, v_now);
    WITH refund AS (
      UPDATE waybill.refunds r SET status = 'succeeded' WHERE r.tenant_id = p_payment.tenant_id AND r.id = p_refund
    )
    UPDATE waybill.payments p
    SET refunded = p.refunded + p_amount, refunded_tax = p.refunded_tax + v_tax,
        status = CASE WHEN p.refunded + p_amount = p.captured THEN 'refunded' ELSE p.status END
    WHERE p.tenant_id = p_payment.tenant_id AND p.id = p_payment.id;
  ELSE
    RAISE EXCEPTION 'the provider gave back % of a payment that has % left to refund', coalesce(p_amount::text, 'an unknown amount'), v_left
      USING ERRCODE = 'WB034';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.book_foreign_refund IS
  'Books a refund that nobody here asked for: one made at the provider, or by a bank in a dispute. The tax in it is in proportion.';

CREATE FUNCTION waybill.apply_refund_fact(
  p_tenant bigint, p_payment uuid, p_refund uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text,
  p_cause text, p_new_refund uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_refund waybill.refunds;
  v_attempt uuid;
BEGIN
  SELECT r.* INTO v_refund FROM waybill.refunds r
  WHERE r.tenant_id = p_tenant AND r.payment_id = p_payment
    AND CASE WHEN p_refund IS NULL THEN r.provider_ref = p_provider_ref ELSE r.id = p_refund END
  FOR NO KEY UPDATE;
  IF v_refund.id IS NULL THEN
    IF p_fact = 'failed' THEN
      RETURN 'nothing-to-do';
    END IF;
    PERFORM waybill.book_foreign_refund(v_payment, p_new_refund, p_provider_ref, p_amount, p_decline_code, p_cause);
    RETURN 'applied';
  END IF;
  IF p_amount <> v_refund.amount THEN
    RAISE EXCEPTION 'the provider says % of refund %, which is of %', p_amount, v_refund.id, v_refund.amount USING ERRCODE = 'WB034';
  END IF;
  IF v_refund.status IN ('processing', 'needs_reconciliation') THEN
    SELECT a.id INTO STRICT v_attempt FROM waybill.payment_attempts a
    WHERE a.tenant_id = p_tenant AND a.refund_id = v_refund.id AND a.settled_at IS NULL;
    PERFORM waybill.settle_payment_attempt(p_tenant, v_attempt, CASE p_fact WHEN 'failed' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, NULL, p_decline_code);
    RETURN 'applied';
  END IF;
  IF v_refund.status <> 'succeeded' OR p_fact <> 'failed' THEN
    RETURN 'nothing-to-do';
  END IF;
  -- A bank can send a refund back days later, and a dispute can be won. The payment holds the money again, and is live again
  -- unless another one is.
  WITH refund AS (
    UPDATE waybill.refunds r SET status = 'failed', decline_code = p_decline_code WHERE r.tenant_id = p_tenant AND r.id = v_refund.id
  )
  UPDATE waybill.payments p
  SET refunded = p.refunded - v_refund.amount, refunded_tax = p.refunded_tax - v_refund.tax,
      status = CASE WHEN p.status = 'refunded' AND NOT EXISTS (
        SELECT FROM waybill.payments o WHERE o.tenant_id = p_tenant AND o.order_id = p.order_id AND o.id <> p.id
          AND o.status NOT IN ('declined', 'voided', 'refunded')) THEN 'captured' ELSE p.status END
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN 'applied';
END
$$;

COMMENT ON FUNCTION waybill.apply_refund_fact IS
  'Brings a refund to what its provider says happened: succeeded or failed, also long after it succeeded. p_refund null is one that is known by the provider''s name of it, or not at all: it is booked then, as p_new_refund. Returns applied or nothing-to-do; refuses what can''t be.';

CREATE FUNCTION waybill.keep_webhook_event(
  p_tenant bigint, p_provider text, p_event text, p_type text, p_digest bytea, p_provider_key text, p_payment_ref text,
  p_subject text, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text, p_cause text, p_new_refund uuid, p_problem text,
  OUT outcome text, OUT payment_id uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_refund uuid;
BEGIN
  -- A second delivery of the same event waits here for the first one.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant || '/' || p_provider || '/' || p_event, 20));
  IF EXISTS (SELECT FROM waybill.payment_webhook_events e
             WHERE e.tenant_id = p_tenant AND e.provider = p_provider AND e.event = p_event) THEN
    outcome := 'seen';
    RETURN;
  END IF;
  -- By what was asked of the provider under this key, or, for what nobody here asked for, by the provider's name of the payment.
  SELECT a.payment_id, a.refund_id INTO payment_id, v_refund
  FROM waybill.payment_attempts a JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.id = a.payment_id
  WHERE a.tenant_id = p_tenant AND a.provider_key = p_provider_key AND p.provider = p_provider;
  IF payment_id IS NULL THEN
    SELECT p.id INTO payment_id FROM waybill.payments p
    WHERE p.tenant_id = p_tenant AND p.provider = p_provider AND p.provider_ref = p_payment_ref;
  END IF;
  outcome := CASE
    WHEN payment_id IS NULL THEN 'unknown'
    WHEN p_problem IS NOT NULL THEN 'conflict'
    WHEN p_fact IS NULL THEN 'unknown'
    WHEN p_subject = 'payment' THEN waybill.apply_payment_fact(p_tenant, payment_id, p_fact, p_provider_ref, p_amount, p_decline_code)
    ELSE waybill.apply_refund_fact(p_tenant, payment_id, v_refund, p_fact, p_provider_ref, p_amount, p_decline_code, p_cause, p_new_refund)
    END;
  INSERT INTO waybill.payment_webhook_events (tenant_id, provider, event, type, payment_id, outcome, digest)
  VALUES (p_tenant, p_provider, p_event, p_type, payment_id, outcome, p_digest);
  IF outcome = 'conflict' THEN
    PERFORM waybill.lock_payment(p_tenant, payment_id);
    INSERT INTO waybill.payment_conflicts
      (tenant_id, provider, event, payment_id, problem, refund_id, subject, fact, reference, amount, decline_code, cause)
    VALUES (p_tenant, p_provider, p_event, payment_id, p_problem, v_refund, p_subject, p_fact, p_provider_ref, p_amount, p_decline_code, p_cause);
    UPDATE waybill.payments p SET conflicts = p.conflicts + 1 WHERE p.tenant_id = p_tenant AND p.id = keep_webhook_event.payment_id;
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.keep_webhook_event IS
  'Keeps a provider''s event and applies its fact, once, or, with a problem, keeps it as a conflict of the payment it is about. Outcome: applied, nothing-to-do, conflict, unknown, or seen for one that came before.';

CREATE FUNCTION waybill.resolve_payment_conflict(p_tenant bigint, p_provider text, p_event text, p_resolution text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment uuid;
BEGIN
  SELECT c.payment_id INTO v_payment FROM waybill.payment_conflicts c
  WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.event = p_event;
  PERFORM waybill.lock_payment(p_tenant, v_payment);
  UPDATE waybill.payment_conflicts c
  SET resolved_at = clock_timestamp(), resolved_by = current_setting('waybill.actor')::uuid, resolution = p_resolution
  WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.event = p_event AND c.resolved_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no open conflict by the event % of %', p_event, p_provider
      USING ERRCODE = 'WB035', HINT = 'SELECT * FROM waybill.payment_conflicts WHERE resolved_at IS NULL lists them.';
  END IF;
  UPDATE waybill.payments p SET conflicts = p.conflicts - 1 WHERE p.tenant_id = p_tenant AND p.id = v_payment;
END
$$;

COMMENT ON FUNCTION waybill.resolve_payment_conflict IS
  'Ends a conflict: somebody looked at the provider, put right what was wrong, and says how. For waybill_owner.';

CREATE FUNCTION waybill.retry_payment_conflict(p_tenant bigint, p_provider text, p_event text, p_new_refund uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c waybill.payment_conflicts;
  v_outcome text;
BEGIN
  SELECT x.* INTO c FROM waybill.payment_conflicts x
  WHERE x.tenant_id = p_tenant AND x.provider = p_provider AND x.event = p_event AND x.fact IS NOT NULL AND x.resolved_at IS NULL;
  IF c.event IS NULL THEN
    RETURN 'nothing-to-do';
  END IF;
  v_outcome := CASE c.subject
    WHEN 'payment' THEN waybill.apply_payment_fact(p_tenant, c.payment_id, c.fact, c.reference, c.amount, c.decline_code)
    ELSE waybill.apply_refund_fact(p_tenant, c.payment_id, c.refund_id, c.fact, c.reference, c.amount, c.decline_code, c.cause, p_new_refund)
    END;
  PERFORM waybill.resolve_payment_conflict(p_tenant, p_provider, p_event, 'it fits what came after it: ' || v_outcome);
  RETURN v_outcome;
END
$$;

COMMENT ON FUNCTION waybill.retry_payment_conflict IS
  'Applies the fact of a conflict after all, since facts come in any order; refuses what still can''t be.';

GRANT EXECUTE ON FUNCTION waybill.keep_webhook_event, waybill.retry_payment_conflict TO waybill_app;
