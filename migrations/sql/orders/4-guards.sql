CREATE FUNCTION waybill.check_order_amounts(p_tenant bigint, p_order uuid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order record;
  v_lines record;
BEGIN
  SELECT o.subtotal, o.discount, o.tax, o.total - o.shipping AS lines_total INTO v_order
  FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order;
  SELECT sum(l.quantity * l.unit_price)::bigint AS subtotal, sum(l.discount)::bigint AS discount,
         sum(l.tax)::bigint AS tax, sum(l.total)::bigint AS lines_total INTO v_lines
  FROM waybill.order_lines l WHERE l.tenant_id = p_tenant AND l.order_id = p_order;
  IF v_order IS DISTINCT FROM v_lines THEN
    RAISE EXCEPTION 'the amounts of order % are not the sums of its lines: % against %', p_order, v_order, v_lines
      USING ERRCODE = 'WB016', HINT = 'Use waybill.place_order and waybill.patch_order: they write an order and its lines together.';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.check_order_amounts IS
  'Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.';

CREATE FUNCTION waybill.order_adds_up() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_lines record;
BEGIN
  SELECT sum(l.quantity * l.unit_price) AS subtotal, sum(l.discount) AS discount, sum(l.tax) AS tax, sum(l.total) AS total
  INTO v_lines FROM waybill.order_lines l WHERE l.tenant_id = NEW.tenant_id AND l.order_id = NEW.id;
  -- The row is at hand. Only when it doesn't add up is it read again: a later trigger may have changed it.
  IF v_lines.total = NEW.total - NEW.shipping AND v_lines.subtotal = NEW.subtotal AND v_lines.discount = NEW.discount
     AND v_lines.tax = NEW.tax THEN
    RETURN NULL;
  END IF;
  PERFORM waybill.check_order_amounts(NEW.tenant_id, NEW.id);
  RETURN NULL;
END
$$;

CREATE FUNCTION waybill.written_lines_add_up() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_fixed record;
BEGIN
  -- Here and not before the row: a new order's row is there only after the statement that inserts both.
  IF TG_OP = 'INSERT' THEN
    SELECT o.id, o.status INTO v_fixed
    FROM (SELECT DISTINCT tenant_id, order_id FROM written) w
    JOIN waybill.orders o ON o.tenant_id = w.tenant_id AND o.id = w.order_id AND o.status <> 'pending' LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'the lines of order % are fixed: it is %', v_fixed.id, v_fixed.status USING ERRCODE = 'WB015';
    END IF;
  END IF;
  PERFORM waybill.check_order_amounts(w.tenant_id, w.order_id) FROM (SELECT DISTINCT tenant_id, order_id FROM written) w;
  RETURN NULL;
END
$$;

CREATE FUNCTION waybill.guard_order_lines() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_status text;
BEGIN
  SELECT o.status INTO v_status FROM waybill.orders o WHERE o.tenant_id = OLD.tenant_id AND o.id = OLD.order_id;
  IF v_status <> 'pending' THEN
    RAISE EXCEPTION 'the lines of order % are fixed: it is %', OLD.order_id, v_status USING ERRCODE = 'WB015';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
