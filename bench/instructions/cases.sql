/*
 * What is counted: a function for each case, called as waybill_app. An order has three lines and two contacts, as in docs/performance.md.
 * Sequences give every call its own order and key.
 */
CREATE SCHEMA bench;
CREATE SEQUENCE bench.placed;
CREATE SEQUENCE bench.moved;
GRANT USAGE ON SCHEMA bench TO waybill_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA bench TO waybill_app;

CREATE FUNCTION bench.order_id(p_number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT ('01935c1e-7b3a-7c1d-9f00-' || lpad(p_number::text, 12, '0'))::uuid
$$;

CREATE FUNCTION bench.operator() RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT u.id FROM waybill.users u WHERE u.tenant_id = 1 AND u.subject = 'demo-operator'
$$;

-- Called by every case; what it costs alone is taken off their figures.
CREATE FUNCTION bench.nothing(OUT v_id uuid, OUT v_operator uuid, OUT v_hash bytea, OUT v_digest text, OUT v_answer bytea, OUT v_headers jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  v_id := bench.order_id(nextval('bench.placed'));
  v_operator := bench.operator();
  v_hash := '\x0000000000000000000000000000000000000000000000000000000000000000';
  v_digest := encode(v_hash, 'hex');
  v_answer := convert_to(repeat('x', 1100), 'UTF8');
  v_headers := '{"content-type":"application/json","etag":"\"1\"","location":"/v1/orders/01935c1e-7b3a-7c1d-9f00-000000000001"}';
END
$$;

CREATE FUNCTION bench.create() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g record := bench.nothing();
  v_key text := g.v_id;
BEGIN
  PERFORM * FROM waybill.claim_key(1, g.v_operator, '{operator}', 'bench', v_key, g.v_hash, NULL, NULL, g.v_digest);
  PERFORM * FROM waybill.place_order(p_tenant => 1, p_id => g.v_id, p_number => upper(right(v_key, 12)), p_channel => 'web',
    p_external_ref => v_key, p_customer_ref => 'c-42', p_currency => 'EUR', p_subtotal => 4597, p_discount => 0, p_tax => 874,
    p_shipping => 490, p_total => 5961, p_metadata => '{"campaign":"spring"}', p_skus => '{TEA-1,TEA-2,CUP-1}',
    p_names => '{Green tea,Black tea,Cup}', p_quantities => '{2,1,1}', p_unit_prices => '{1299,999,1000}', p_discounts => '{0,0,0}',
    p_tax_rates => '{190000,190000,190000}', p_taxes => '{494,190,190}', p_totals => '{3092,1189,1190}',
    p_fields => '{customer,shippingAddress}',
    p_values => ARRAY['{"name":"Ada Example","email":"ada@example.test"}',
                      '{"line1":"1 Main St","city":"Berlin","postalCode":"10115","country":"DE"}'],
    p_salts => ARRAY[g.v_hash, g.v_hash]);
  PERFORM waybill.complete_key(1, v_key, g.v_hash, NULL, 201::smallint, g.v_headers, g.v_answer, 'order/' || v_key, '24 hours');
END
$$;

CREATE FUNCTION bench.transition() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g record := bench.nothing();
  v_id uuid := bench.order_id(nextval('bench.moved'));
  v_key text := g.v_id;
BEGIN
  PERFORM * FROM waybill.claim_key(1, g.v_operator, '{operator}', 'bench', v_key, g.v_hash, NULL, NULL, g.v_digest);
  PERFORM * FROM waybill.transition_order(1, v_id, 'confirmed', NULL, NULL, NULL);
  PERFORM waybill.complete_key(1, v_key, g.v_hash, NULL, 201::smallint, g.v_headers, g.v_answer, 'order/' || v_key, '24 hours');
END
$$;

CREATE FUNCTION bench.replay() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g record := bench.nothing();
BEGIN
  PERFORM * FROM waybill.claim_key(1, g.v_operator, '{operator}', 'bench', bench.order_id(1)::text, g.v_hash, NULL, NULL, g.v_digest);
END
$$;

CREATE FUNCTION bench.read() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g record := bench.nothing();
  v_id uuid := bench.order_id(1);
BEGIN
  PERFORM waybill.set_context(1, g.v_operator, '{operator}', 'bench');
  PERFORM octet_length(d::text) FROM waybill.order_details d WHERE d.tenant_id = 1 AND d.id = v_id;
END
$$;

CREATE FUNCTION bench.list() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  g record := bench.nothing();
BEGIN
  PERFORM waybill.set_context(1, g.v_operator, '{operator}', 'bench');
  PERFORM octet_length(d::text) FROM waybill.order_details d WHERE d.tenant_id = 1 ORDER BY d.placed_at DESC, d.id DESC LIMIT 51;
END
$$;

GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA bench TO waybill_app;
