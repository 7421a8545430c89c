CREATE FUNCTION waybill.payment_snapshot(p waybill.payments) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', p.id, 'orderId', p.order_id, 'provider', p.provider, 'providerRef', p.provider_ref,
    'status', p.status, 'version', p.version, 'currency', p.currency, 'amount', p.amount, 'tax', p.tax,
    'authorized', p.authorized, 'captured', p.captured, 'capturedTax', p.captured_tax, 'refunding', p.refunding,
    'refundingTax', p.refunding_tax, 'refunded', p.refunded, 'refundedTax', p.refunded_tax, 'declineCode', p.decline_code,
    'conflicts', p.conflicts,
    'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(p.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$$;

COMMENT ON FUNCTION waybill.payment_snapshot IS 'A payment as its events keep it.';

CREATE FUNCTION waybill.refund_snapshot(r waybill.refunds) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', r.id, 'paymentId', r.payment_id, 'providerRef', r.provider_ref, 'status', r.status,
    'version', r.version, 'amount', r.amount, 'tax', r.tax, 'reason', r.reason, 'cause', r.cause, 'declineCode', r.decline_code,
    'createdAt', to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(r.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$$;

COMMENT ON FUNCTION waybill.refund_snapshot IS 'A refund as its events keep it.';

CREATE VIEW waybill.payment_details WITH (security_invoker = true) AS
SELECT p.tenant_id, p.id, p.order_id, p.provider, p.provider_ref, p.status, p.version, p.currency, p.amount, p.tax,
       p.authorized, p.captured, p.captured_tax, p.refunding, p.refunding_tax, p.refunded, p.refunded_tax,
       p.decline_code, p.created_at, p.updated_at,
       (SELECT coalesce(jsonb_agg(waybill.refund_snapshot(r)::jsonb
          || jsonb_build_object('eventHash', (SELECT encode(e.event_hash, 'hex') FROM audit.events e
               WHERE e.tenant_id = r.tenant_id AND e.stream = 'refund/' || r.id AND e.version = r.version))
          ORDER BY r.created_at, r.id), '[]'::jsonb)
        FROM waybill.refunds r WHERE r.tenant_id = p.tenant_id AND r.payment_id = p.id) AS refunds,
       CASE WHEN p.conflicts = 0 THEN '[]'::jsonb ELSE (
         SELECT jsonb_agg(jsonb_build_object('provider', c.provider, 'event', c.event, 'subject', c.subject, 'fact', c.fact,
           'reference', c.reference, 'amount', c.amount, 'problem', c.problem,
           'noticedAt', to_char(c.noticed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) ORDER BY c.noticed_at, c.event)
         FROM waybill.payment_conflicts c
         WHERE c.tenant_id = p.tenant_id AND c.payment_id = p.id AND c.resolved_at IS NULL) END AS conflicts,
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = p.tenant_id AND e.stream = 'payment/' || p.id AND e.version = p.version) AS event_hash
FROM waybill.payments p;

COMMENT ON VIEW waybill.payment_details IS 'A payment with its refunds and open conflicts, as the API shows it.';

GRANT SELECT ON waybill.payment_details TO waybill_app;

GRANT EXECUTE ON FUNCTION waybill.refund_snapshot TO waybill_app;

CREATE FUNCTION waybill.order_coverage(p_tenant bigint, p_order uuid) RETURNS TABLE (total bigint, held bigint, taken bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT o.total,
         coalesce(sum(CASE p.status
           WHEN 'authorized' THEN p.authorized
           -- What isn't taken is let go, so while a part is being taken only that part is sure.
           WHEN 'capturing' THEN (SELECT a.amount FROM waybill.payment_attempts a
                                  WHERE a.tenant_id = p_tenant AND a.payment_id = p.id AND a.refund_id IS NULL AND a.status = 'processing')
           ELSE p.captured - p.refunded - p.refunding END), 0)::bigint,
         coalesce(sum(p.captured - p.refunded - p.refunding), 0)::bigint
  FROM waybill.orders o LEFT JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.order_id = o.id
  WHERE o.tenant_id = p_tenant AND o.id = p_order
  GROUP BY o.total
$$;

COMMENT ON FUNCTION waybill.order_coverage IS
  'What an order asks for, how much of it its payments hold or have taken, and how much they have taken: what was given back, is being given back or let go of, or nobody can tell of, is neither.';

GRANT EXECUTE ON FUNCTION waybill.order_coverage TO waybill_app;
