CREATE FUNCTION waybill.payment_snapshot(p waybill.payments) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', p.id, 'orderId', p.order_id, 'provider', p.provider, 'providerRef', p.provider_ref,
    'status', p.status, 'version', p.version, 'currency', p.currency, 'amount', p.amount, 'tax', p.tax,
    'authorized', p.authorized, 'captured', p.captured, 'capturedTax', p.captured_tax, 'refunding', p.refunding,
    'refundingTax', p.refunding_tax, 'refunded', p.refunded, 'refundedTax', p.refunded_tax, 'declineCode', p.decline_code,
    'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(p.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$$;

COMMENT ON FUNCTION waybill.payment_snapshot IS 'A payment as its events keep it.';

CREATE FUNCTION waybill.refund_snapshot(r waybill.refunds) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', r.id, 'paymentId', r.payment_id, 'providerRef', r.provider_ref, 'status', r.status,
    'version', r.version, 'amount', r.amount, 'tax', r.tax, 'reason', r.reason, 'declineCode', r.decline_code,
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
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = p.tenant_id AND e.stream = 'payment/' || p.id AND e.version = p.version) AS event_hash
FROM waybill.payments p;

COMMENT ON VIEW waybill.payment_details IS 'A payment with its refunds, as the API shows it.';

GRANT SELECT ON waybill.payment_details TO waybill_app;

GRANT EXECUTE ON FUNCTION waybill.refund_snapshot TO waybill_app;
