CREATE FUNCTION waybill.order_snapshot(p_tenant bigint, p_order uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT jsonb_build_object('id', o.id, 'number', o.number, 'channel', o.channel, 'externalRef', o.external_ref,
      'customerRef', o.customer_ref, 'status', o.status, 'version', o.version, 'currency', o.currency,
      'subtotal', o.subtotal, 'discount', o.discount, 'tax', o.tax, 'shipping', o.shipping, 'total', o.total,
      'metadata', o.metadata, 'placedAt', to_char(o.placed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'updatedAt', to_char(o.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'lines', (
      SELECT jsonb_agg(jsonb_build_object('lineNo', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity,
               'unitPrice', l.unit_price, 'discount', l.discount, 'taxRatePpm', l.tax_rate_ppm, 'tax', l.tax,
               'total', l.total, 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no)
      FROM waybill.order_lines l WHERE l.tenant_id = o.tenant_id AND l.order_id = o.id),
      'contacts', (
        SELECT jsonb_object_agg(c.field, jsonb_build_object('version', c.version, 'digest', audit.pii_digest(c.salt, c.field, c.value)))
        FROM (SELECT DISTINCT ON (field) field, version, salt, value FROM waybill.order_contacts
              WHERE tenant_id = p_tenant AND order_id = p_order ORDER BY field, version DESC) c))
    FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order);
END
$$;

COMMENT ON FUNCTION waybill.order_snapshot IS
  'An order as its events keep it: all that it is, with digests in the place of personal data.';

CREATE VIEW waybill.order_details WITH (security_invoker = true) AS
SELECT o.tenant_id, o.id, o.number, o.channel, o.external_ref, o.customer_ref, o.status, o.version, o.currency,
       o.subtotal, o.discount, o.tax, o.shipping, o.total, o.metadata, o.placed_at, o.updated_at,
       (
      SELECT jsonb_agg(jsonb_build_object('lineNo', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity,
               'unitPrice', l.unit_price, 'discount', l.discount, 'taxRatePpm', l.tax_rate_ppm, 'tax', l.tax,
               'total', l.total, 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no)
      FROM waybill.order_lines l WHERE l.tenant_id = o.tenant_id AND l.order_id = o.id) AS lines,
       (SELECT jsonb_object_agg(c.field, c.value::jsonb)
        FROM (SELECT DISTINCT ON (field) field, value FROM waybill.order_contacts
              WHERE tenant_id = o.tenant_id AND order_id = o.id ORDER BY field, version DESC) c) AS contacts,
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = o.tenant_id AND e.stream = 'order/' || o.id AND e.version = o.version) AS event_hash
FROM waybill.orders o;

COMMENT ON VIEW waybill.order_details IS 'An order as the API shows it.';

GRANT SELECT ON waybill.order_details TO waybill_app;

GRANT EXECUTE ON FUNCTION waybill.order_snapshot TO waybill_audit;

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

CREATE VIEW waybill.order_documents WITH (security_invoker = true) AS
SELECT d.tenant_id, d.id, d.number, d.channel, d.external_ref, d.customer_ref, d.status, d.version, d.currency,
       d.subtotal, d.discount, d.tax, d.shipping, d.total, d.metadata, d.placed_at, d.updated_at,
       (SELECT json_agg(row_to_json(r)) FROM (
          SELECT l.sku, l.tax, l.name, l.total, l.line_no AS "lineNo", l.discount, l.quantity, l.unit_price AS "unitPrice",
                 l.tax_rate_ppm AS "taxRatePpm", l.shipped_quantity AS "shippedQuantity"
          FROM waybill.order_lines l WHERE l.tenant_id = d.tenant_id AND l.order_id = d.id ORDER BY l.line_no) r) AS lines,
       d.contacts, d.event_hash, c.customer, c.shipping_address, c.billing_address
FROM waybill.order_details d
CROSS JOIN LATERAL (
  SELECT max(latest.value) FILTER (WHERE latest.field = 'customer') AS customer,
         max(latest.value) FILTER (WHERE latest.field = 'shippingAddress') AS shipping_address,
         max(latest.value) FILTER (WHERE latest.field = 'billingAddress') AS billing_address
  FROM (SELECT DISTINCT ON (o.field) o.field, o.value FROM waybill.order_contacts o
        WHERE o.tenant_id = d.tenant_id AND o.order_id = d.id ORDER BY o.field, o.version DESC) latest
) c;

COMMENT ON VIEW waybill.order_documents IS 'An order as the API shows it, for reading: lines as json, contacts as the text of their JSON.';

GRANT SELECT ON waybill.order_documents TO waybill_app;
