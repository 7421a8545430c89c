CREATE FUNCTION waybill.require_order_amounts(p_tenant bigint, p_order uuid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order record;
  v_lines record;
BEGIN
  SELECT o.subtotal::bigint, o.discount::bigint, o.tax::bigint, (o.total - o.shipping)::bigint AS lines_total INTO v_order
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

COMMENT ON FUNCTION waybill.require_order_amounts IS
  'Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.';

CREATE FUNCTION waybill.check_order(p_new waybill.orders, p_old waybill.orders) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_new.total <> p_new.subtotal - p_new.discount + p_new.tax + p_new.shipping THEN
    PERFORM waybill.refuse_row('orders_total_adds_up', 'total = subtotal - discount + tax + shipping', p_new::text);
  END IF;
  IF p_old.status <> 'pending' AND (p_new.subtotal, p_new.discount, p_new.tax, p_new.shipping, p_new.total)
                                   IS DISTINCT FROM (p_old.subtotal, p_old.discount, p_old.tax, p_old.shipping, p_old.total) THEN
    RAISE EXCEPTION 'UPDATE on waybill.orders is refused: the amounts of an order are fixed once it is no longer pending'
      USING ERRCODE = 'WB002';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.check_order IS 'Rules of several columns of an order; the row before is null for a new one.';

CREATE FUNCTION waybill.guard_order_amounts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_lines record;
BEGIN
  IF TG_OP = 'UPDATE' AND current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.id::text
     AND NEW.subtotal = OLD.subtotal AND NEW.discount = OLD.discount AND NEW.tax = OLD.tax
     AND NEW.total - NEW.shipping = OLD.total - OLD.shipping THEN
    RETURN NULL;
  END IF;
  SELECT sum(l.quantity * l.unit_price) AS subtotal, sum(l.discount) AS discount, sum(l.tax) AS tax, sum(l.total) AS total
  INTO v_lines FROM waybill.order_lines l WHERE l.tenant_id = NEW.tenant_id AND l.order_id = NEW.id;
  -- The row is at hand. Only when it doesn't add up is it read again: a later trigger may have changed it.
  IF v_lines.total = NEW.total - NEW.shipping AND v_lines.subtotal = NEW.subtotal AND v_lines.discount = NEW.discount
     AND v_lines.tax = NEW.tax THEN
    RETURN NULL;
  END IF;
  PERFORM waybill.require_order_amounts(NEW.tenant_id, NEW.id);
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION waybill.guard_order_amounts IS
  'AFTER INSERT OR UPDATE … FOR EACH ROW of orders: the amounts are the sums of the lines that the same statement wrote.';

CREATE FUNCTION waybill.refuse_order_part(p_tenant bigint, p_order uuid, p_part text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_status text := (SELECT o.status FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order);
BEGIN
  IF v_status <> 'pending' THEN
    RAISE EXCEPTION 'the % of order % are fixed: it is %', p_part, p_order, v_status USING ERRCODE = 'WB015';
  END IF;
  RAISE EXCEPTION 'the % of order % are written together with the order', p_part, p_order
    USING ERRCODE = 'WB016', HINT = 'Use waybill.place_order and waybill.patch_order: they write an order and all of its parts together.';
END
$$;

COMMENT ON FUNCTION waybill.refuse_order_part IS
  'Says why lines or contacts of an order cannot be written apart from it.';

CREATE FUNCTION waybill.refuse_order_line(p_line waybill.order_lines) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_amount bigint := p_line.quantity * p_line.unit_price;
BEGIN
  IF v_amount > 9000000000000 THEN
    PERFORM waybill.refuse_row('order_lines_amount_range', 'quantity * unit_price <= 9000000000000', p_line::text);
  ELSIF p_line.discount > v_amount THEN
    PERFORM waybill.refuse_row('order_lines_discount_range', 'discount <= quantity * unit_price', p_line::text);
  ELSIF p_line.tax <> ((v_amount - p_line.discount) * p_line.tax_rate_ppm + 500000) / 1000000 THEN
    PERFORM waybill.refuse_row('order_lines_tax_half_up',
      'tax is (quantity * unit_price - discount) * tax_rate_ppm / 1000000, rounded half up', p_line::text);
  ELSIF p_line.total <> v_amount - p_line.discount + p_line.tax THEN
    PERFORM waybill.refuse_row('order_lines_total_adds_up', 'total = quantity * unit_price - discount + tax', p_line::text);
  ELSIF p_line.shipped_quantity NOT BETWEEN 0 AND p_line.quantity THEN
    PERFORM waybill.refuse_row('order_lines_shipped_range', 'shipped_quantity is from 0 to quantity', p_line::text);
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.refuse_order_line IS 'Refuses a line by the first rule of several columns that it breaks.';

CREATE FUNCTION waybill.guard_order_line() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_amount bigint;
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF current_setting('waybill.written_order', true) IS DISTINCT FROM OLD.order_id::text THEN
      PERFORM waybill.refuse_order_part(OLD.tenant_id, OLD.order_id, 'lines');
    END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.tenant_id, NEW.order_id, NEW.line_no) IS DISTINCT FROM (OLD.tenant_id, OLD.order_id, OLD.line_no) THEN
      RAISE EXCEPTION 'UPDATE on waybill.order_lines is refused: a line stays in its order and place' USING ERRCODE = 'WB002';
    END IF;
  END IF;
  IF current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.order_id::text
     AND (TG_OP = 'INSERT'
          OR (NEW.sku, NEW.name, NEW.quantity, NEW.unit_price, NEW.discount, NEW.tax_rate_ppm, NEW.tax, NEW.total)
             IS DISTINCT FROM (OLD.sku, OLD.name, OLD.quantity, OLD.unit_price, OLD.discount, OLD.tax_rate_ppm, OLD.tax, OLD.total)) THEN
    PERFORM waybill.refuse_order_part(NEW.tenant_id, NEW.order_id, 'lines');
  END IF;
  v_amount := NEW.quantity * NEW.unit_price;
  IF NOT coalesce(v_amount <= 9000000000000 AND NEW.discount <= v_amount
                  AND NEW.tax = ((v_amount - NEW.discount) * NEW.tax_rate_ppm + 500000) / 1000000
                  AND NEW.total = v_amount - NEW.discount + NEW.tax AND NEW.shipped_quantity BETWEEN 0 AND NEW.quantity, false) THEN
    PERFORM waybill.refuse_order_line(NEW);
  END IF;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_order_line IS
  'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH ROW of lines. What was ordered is written by the commands alone, which name the order in waybill.written_order while they write it.';

CREATE FUNCTION waybill.guard_order_contact() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.order_id::text THEN
    PERFORM waybill.refuse_order_part(NEW.tenant_id, NEW.order_id, 'contacts');
  END IF;
  NEW.digest := audit.pii_digest(NEW.salt, NEW.field, NEW.value);
  RETURN NEW;
END
$$;

CREATE TRIGGER order_lines_20_guard BEFORE INSERT OR UPDATE OR DELETE ON waybill.order_lines
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_line();

CREATE TRIGGER order_contacts_20_guard BEFORE INSERT ON waybill.order_contacts
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_contact();

CREATE TRIGGER orders_40_amounts AFTER INSERT OR UPDATE ON waybill.orders
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_amounts();
