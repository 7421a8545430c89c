-- JSON is put together as text: concat looks up how to write a column once a statement, row_to_json for every value of a row.
CREATE VIEW waybill.order_line_texts WITH (security_invoker = true) AS
SELECT l.tenant_id, l.order_id, l.line_no,
       concat('{"lineNo":', l.line_no, ',"sku":', to_json(l.sku::text), ',"name":', to_json(l.name::text),
              ',"quantity":', l.quantity, ',"unitPrice":', l.unit_price, ',"discount":', l.discount,
              ',"taxRatePpm":', l.tax_rate_ppm, ',"tax":', l.tax, ',"total":', l.total,
              ',"shippedQuantity":', l.shipped_quantity, '}') AS json
FROM waybill.order_lines l;

COMMENT ON VIEW waybill.order_line_texts IS 'A line as the text of its JSON, for events and answers alike.';

GRANT SELECT ON waybill.order_line_texts TO waybill_app, waybill_audit;

CREATE FUNCTION waybill.order_snapshot(o waybill.orders) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN concat(
    '{"id":"', o.id, '","number":"', o.number, '","channel":"', o.channel,
    '","externalRef":', coalesce(to_json(o.external_ref::text)::text, 'null'), ',"customerRef":', to_json(o.customer_ref::text),
    ',"status":"', o.status, '","version":', o.version, ',"currency":"', o.currency, '","subtotal":', o.subtotal,
    ',"discount":', o.discount, ',"tax":', o.tax, ',"shipping":', o.shipping, ',"total":', o.total,
    ',"metadata":', o.metadata, ',"placedAt":"', to_char(o.placed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '","updatedAt":"', to_char(o.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '","lines":', coalesce((
      SELECT '[' || string_agg(l.json, ',') || ']' FROM (
        SELECT t.json FROM waybill.order_line_texts t WHERE t.tenant_id = o.tenant_id AND t.order_id = o.id ORDER BY t.line_no) l), '[]'),
    ',"contacts":', coalesce((
      SELECT '{' || string_agg(concat('"', c.field, '":{"version":', c.version, ',"digest":"', c.digest, '"}'), ',') || '}' FROM (
        SELECT DISTINCT ON (x.field) x.field, x.version, x.digest FROM waybill.order_contacts x
        WHERE x.tenant_id = o.tenant_id AND x.order_id = o.id ORDER BY x.field DESC, x.version DESC) c), 'null'),
    '}');
END
$$;

COMMENT ON FUNCTION waybill.order_snapshot IS
  'An order as its events keep it, as JSON text: all that it is, with digests in the place of personal data.';

CREATE VIEW waybill.order_details WITH (security_invoker = true) AS
SELECT o.tenant_id, o.id, o.number, o.channel, o.external_ref, o.customer_ref, o.status, o.version, o.currency,
       o.subtotal, o.discount, o.tax, o.shipping, o.total, o.metadata, o.placed_at, o.updated_at,
       (SELECT coalesce('[' || string_agg(l.json, ',') || ']', '[]') FROM (
          SELECT t.json FROM waybill.order_line_texts t WHERE t.tenant_id = o.tenant_id AND t.order_id = o.id ORDER BY t.line_no) l) AS lines,
       c.customer, c.shipping_address, c.billing_address,
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = o.tenant_id AND e.stream = 'order/' || o.id AND e.version = o.version) AS event_hash
FROM waybill.orders o
CROSS JOIN LATERAL (
  SELECT max(latest.value) FILTER (WHERE latest.field = 'customer') AS customer,
         max(latest.value) FILTER (WHERE latest.field = 'shippingAddress') AS shipping_address,
         max(latest.value) FILTER (WHERE latest.field = 'billingAddress') AS billing_address
  FROM (SELECT DISTINCT ON (x.field) x.field, x.value FROM waybill.order_contacts x
        WHERE x.tenant_id = o.tenant_id AND x.order_id = o.id ORDER BY x.field DESC, x.version DESC) latest
) c;

COMMENT ON VIEW waybill.order_details IS
  'An order as the API shows it. Lines and contacts are the texts of their JSON, as they can be written into an answer.';

GRANT SELECT ON waybill.order_details TO waybill_app;

CREATE FUNCTION waybill.order_missing_values(p_tenant bigint, p_orders uuid[])
RETURNS TABLE (id uuid, field text, version bigint, state text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  -- OFFSET 0 keeps each subquery apart, so that it is run for each row, by its index.
  SELECT r.id, r.field, r.version, CASE WHEN c.salt IS NULL THEN 'missing' ELSE 'changed' END
  FROM (SELECT DISTINCT o.id, f.key AS field, (f.value ->> 'version')::int AS version, f.value ->> 'digest' AS digest
        FROM unnest(p_orders) AS o(id)
        CROSS JOIN LATERAL (SELECT x.body FROM audit.events x
                            WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || o.id OFFSET 0) e
        CROSS JOIN LATERAL jsonb_each(nullif(e.body::jsonb #> '{snapshot,contacts}', 'null'::jsonb)) f) r
  LEFT JOIN LATERAL (SELECT x.salt, x.value FROM waybill.order_contacts x
                     WHERE x.tenant_id = p_tenant AND x.order_id = r.id AND x.field = r.field AND x.version = r.version
                     OFFSET 0) c ON true
  WHERE CASE WHEN c.salt IS NULL
        THEN NOT EXISTS (SELECT FROM audit.events x WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || r.id
                           AND x.version > r.version AND x.type = 'customer.erased')
        ELSE audit.pii_digest(c.salt, r.field, c.value) <> r.digest END
$$;

COMMENT ON FUNCTION waybill.order_missing_values IS
  'Contacts whose digest stands in an event of these orders, but whose value is gone without an erasure, or is another one.';

GRANT EXECUTE ON FUNCTION waybill.order_missing_values TO waybill_audit;
