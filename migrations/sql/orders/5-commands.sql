CREATE FUNCTION waybill.place_order(
  p_tenant bigint, p_id uuid, p_number text, p_channel text, p_external_ref text, p_customer_ref text, p_currency text,
  p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_metadata jsonb,
  p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[],
  p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[],
  p_fields text[], p_values text[], p_salts bytea[],
  OUT status text, OUT version int, OUT placed_at timestamptz, OUT metadata jsonb, OUT event_hash text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_taken uuid;
BEGIN
  IF p_external_ref IS NOT NULL THEN
    SELECT o.id INTO v_taken FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.external_ref = p_external_ref AND o.channel = p_channel;
    IF FOUND THEN
      RAISE EXCEPTION 'channel % has an order % already: %', p_channel, p_external_ref, v_taken
        USING ERRCODE = 'WB017', DETAIL = jsonb_build_object('orderId', v_taken)::text;
    END IF;
  END IF;
  placed_at := clock_timestamp();
  PERFORM set_config('waybill.written_order', p_id::text, true);
  WITH new_lines AS (
    INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
    SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
    FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
      WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
  ), new_contacts AS (
    INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
    SELECT p_tenant, p_id, c.field, 1, c.salt, c.value FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
  )
  INSERT INTO waybill.orders AS o (tenant_id, id, number, channel, external_ref, customer_ref, currency,
                                        subtotal, discount, tax, shipping, total, metadata, placed_at, updated_at)
  VALUES (p_tenant, p_id, p_number, p_channel, p_external_ref, p_customer_ref, p_currency,
          p_subtotal, p_discount, p_tax, p_shipping, p_total, p_metadata, place_order.placed_at, place_order.placed_at)
  RETURNING o.status, o.version, o.metadata INTO place_order.status, place_order.version, place_order.metadata;
  PERFORM set_config('waybill.written_order', '', true);
  SELECT encode(e.event_hash, 'hex') INTO place_order.event_hash FROM audit.events e
  WHERE e.tenant_id = p_tenant AND e.stream = 'order/' || p_id AND e.version = place_order.version;
END
$$;

COMMENT ON FUNCTION waybill.place_order IS
  'Places an order with its lines and contacts. Amounts in minor units; arrays are parallel, one entry a line or contact. Returns what the caller doesn''t know: state, version and time, the metadata as they are stored, the hash of its event.';

CREATE FUNCTION waybill.lock_order(p_tenant bigint, p_id uuid, p_expected_version int) RETURNS waybill.orders
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders;
BEGIN
  PERFORM waybill.require_key();
  SELECT o.* INTO v_order FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_id FOR NO KEY UPDATE;
  IF v_order.version <> p_expected_version THEN
    RAISE EXCEPTION 'order % is at version %, not %', p_id, v_order.version, p_expected_version
      USING ERRCODE = 'WB012', DETAIL = jsonb_build_object('current', v_order.version)::text;
  END IF;
  RETURN v_order;
END
$$;

COMMENT ON FUNCTION waybill.lock_order IS
  'Locks an order until the transaction ends and checks its version, unless that is null. A row of nulls when there is none.';

CREATE FUNCTION waybill.lock_order_details(p_tenant bigint, p_id uuid, p_expected_version int) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Two statements: one that both waits for the lock and reads would show what was there before it waited.
  PERFORM waybill.lock_order(p_tenant, p_id, p_expected_version);
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.lock_order_details IS
  'Locks an order as lock_order does and returns it; no row when there is none.';

CREATE FUNCTION waybill.transition_order(
  p_tenant bigint, p_id uuid, p_to text, p_reason text, p_expected_version int, p_metadata jsonb) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders;
BEGIN
  LOOP
    -- The UPDATE waits for the order's row and then asks its conditions again, so it needs no lock before it.
    UPDATE waybill.orders o SET status = p_to, transition_reason = p_reason, metadata = coalesce(p_metadata, o.metadata)
    WHERE o.tenant_id = p_tenant AND o.id = p_id AND o.status <> p_to AND o.version = coalesce(p_expected_version, o.version);
    EXIT WHEN FOUND;
    v_order := waybill.lock_order(p_tenant, p_id, p_expected_version);
    EXIT WHEN v_order.id IS NULL;
    IF v_order.status = p_to THEN
      RAISE EXCEPTION 'order % is already %', p_id, p_to
        USING ERRCODE = 'WB011', DETAIL = jsonb_build_object('state', p_to)::text;
    END IF;
    -- Somebody moved it on while the lock was waited for: again, with the lock.
  END LOOP;
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.transition_order IS
  'Moves an order to another state and returns it; no row when there is no such order. Metadata is replaced unless null.';

CREATE FUNCTION waybill.patch_order(
  p_tenant bigint, p_id uuid, p_expected_version int, p_metadata jsonb,
  p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint,
  p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[],
  p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[],
  p_fields text[], p_values text[], p_salts bytea[]) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders := waybill.lock_order(p_tenant, p_id, p_expected_version);
BEGIN
  IF p_skus IS NOT NULL AND v_order.status <> 'pending' THEN
    RAISE EXCEPTION 'the lines of order % are fixed: it is %', p_id, v_order.status USING ERRCODE = 'WB015';
  END IF;
  IF cardinality(p_fields) > 0 AND v_order.status NOT IN ('pending', 'confirmed') THEN
    RAISE EXCEPTION 'the contacts of order % are fixed: it is %', p_id, v_order.status USING ERRCODE = 'WB015';
  END IF;
  PERFORM set_config('waybill.written_order', p_id::text, true);
  WITH kept_lines AS (
    INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
    SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
    FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
      WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
    ON CONFLICT (tenant_id, order_id, line_no) DO UPDATE
    SET sku = excluded.sku, name = excluded.name, quantity = excluded.quantity, unit_price = excluded.unit_price,
        discount = excluded.discount, tax_rate_ppm = excluded.tax_rate_ppm, tax = excluded.tax, total = excluded.total
  ), dropped_lines AS (
    DELETE FROM waybill.order_lines l
    WHERE l.tenant_id = p_tenant AND l.order_id = p_id AND l.line_no > cardinality(p_skus)
  ), new_contacts AS (
    INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
    SELECT p_tenant, p_id, c.field, v_order.version + 1, c.salt, c.value
    FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
  )
  UPDATE waybill.orders o
  SET version = o.version + 1, metadata = coalesce(p_metadata, o.metadata), subtotal = coalesce(p_subtotal, o.subtotal),
      discount = coalesce(p_discount, o.discount), tax = coalesce(p_tax, o.tax),
      shipping = coalesce(p_shipping, o.shipping), total = coalesce(p_total, o.total)
  WHERE o.tenant_id = p_tenant AND o.id = p_id;
  PERFORM set_config('waybill.written_order', '', true);
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.patch_order IS
  'Changes what may still change of an order, as one version, and returns it. Null leaves a part as it is; contacts are parallel arrays.';

GRANT EXECUTE ON FUNCTION waybill.place_order, waybill.lock_order_details, waybill.transition_order, waybill.patch_order TO waybill_app;
