CREATE FUNCTION waybill.payment_holding_order(p_tenant bigint, p_order uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object(
    'code', 'WB030',
    'message', format('order %s has a payment %s, which is %s%s', p_order, p.id, p.status,
                      CASE WHEN p.conflicts > 0 THEN ' and of which its provider says something else' END),
    'detail', jsonb_build_object('paymentId', p.id, 'status', p.status, 'conflicts', p.conflicts),
    'hint', CASE WHEN p.conflicts > 0 THEN 'waybill.payment_conflicts says what; waybill.resolve_payment_conflict ends it.'
                 ELSE 'Void it or refund it first.' END)
  FROM waybill.payments p
  WHERE p.tenant_id = p_tenant AND p.order_id = p_order
    AND (p.status NOT IN ('declined', 'voided', 'refunded') OR p.conflicts > 0)
  ORDER BY p.conflicts DESC LIMIT 1
$$;

COMMENT ON FUNCTION waybill.payment_holding_order IS
  'What an order''s live payment, or one with open conflicts, has against canceling the order, another total and another payment; null when there is none. A new payment locks the order, so none slips in.';

GRANT EXECUTE ON FUNCTION waybill.payment_holding_order TO waybill_app;

SELECT waybill.add_step_rule('order', 'waybill.payment_holding_order', '{canceled}');

CREATE FUNCTION waybill.keep_total_while_paying() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_refusal jsonb;
BEGIN
  IF NEW.total <> OLD.total THEN
    v_refusal := waybill.payment_holding_order(NEW.tenant_id, NEW.id);
    IF v_refusal IS NOT NULL THEN
      PERFORM waybill.raise_refusal(v_refusal);
    END IF;
  END IF;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.keep_total_while_paying IS
  'BEFORE UPDATE OF total … FOR EACH ROW of orders: no other total while a payment is live.';

-- Only where a statement sets the total: steps and metadata don't, and pay for no further trigger.
CREATE TRIGGER orders_25_total BEFORE UPDATE OF total ON waybill.orders FOR EACH ROW
  EXECUTE FUNCTION waybill.keep_total_while_paying();

CREATE FUNCTION waybill.share_of_tax(p_part bigint, p_whole bigint, p_whole_tax bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT least(p_part, p_whole_tax, greatest(p_part - (p_whole - p_whole_tax),
                                             round(p_part::numeric * p_whole_tax / p_whole)::bigint))
$$;

COMMENT ON FUNCTION waybill.share_of_tax IS
  'The tax in a part of an amount: in proportion, rounded half up, and never so that tax or net of the whole is exceeded.';

CREATE FUNCTION waybill.lock_payment(p_tenant bigint, p_payment uuid) RETURNS waybill.payments
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments;
BEGIN
  -- Order first, then payment, then refund: the order of a payment never changes, so it may be read without a lock.
  PERFORM waybill.lock_order(p_tenant, p.order_id, NULL) FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  SELECT p.* INTO v_payment FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment FOR NO KEY UPDATE;
  RETURN v_payment;
END
$$;

COMMENT ON FUNCTION waybill.lock_payment IS
  'Locks a payment and its order until the transaction ends. A row of nulls when there is none.';

CREATE FUNCTION waybill.refuse_payment_step(p_payment waybill.payments, p_to text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_payment.status IN ('processing', 'capturing', 'voiding', 'needs_reconciliation') THEN
    RAISE EXCEPTION 'payment % is %: what was begun must end first', p_payment.id, p_payment.status
      USING ERRCODE = 'WB030', DETAIL = jsonb_build_object('paymentId', p_payment.id, 'status', p_payment.status)::text;
  END IF;
  RAISE EXCEPTION 'payment % cannot go from % to %', p_payment.id, p_payment.status, p_to
    USING ERRCODE = 'WB010', DETAIL = jsonb_build_object('from', p_payment.status, 'to', p_to, 'allowed', coalesce((
      SELECT jsonb_agg(t.to_state ORDER BY t.to_state) FROM waybill.valid_transitions t
      WHERE t.machine = 'payment' AND t.from_state = p_payment.status AND t.roles <> '{system}'), '[]'::jsonb))::text;
END
$$;

CREATE FUNCTION waybill.refuse_payment_amount(p_amount bigint, p_max bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'an amount of % is not between 1 and %', p_amount, p_max
    USING ERRCODE = 'WB032', DETAIL = jsonb_build_object('amount', p_amount, 'max', p_max)::text;
END
$$;
