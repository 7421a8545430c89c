import type { MigrationInterface, QueryRunner } from 'typeorm';

const tenantOnly = `tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint`;

/** Orders: tables, what may become of them, the commands that write them, the view that reads them. */
export class Orders1764460804000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await this.tables(db);
    await this.guards(db);
    await this.reading(db);
    await this.triggers(db);
    await this.commands(db);
  }

  private async tables(db: QueryRunner): Promise<void> {
    // Metadata: 16 KiB of JSON text, which the API takes, can be six times as much in jsonb, where a digit and its comma
    // are 12 bytes.
    await db.query(`
CREATE TABLE waybill.orders (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  number            text COLLATE "C" NOT NULL,
  channel           text COLLATE "C" NOT NULL,
  external_ref      text COLLATE "C",
  customer_ref      text COLLATE "C" NOT NULL,
  status            text COLLATE "C" NOT NULL,
  version           int NOT NULL DEFAULT 1,
  currency          text COLLATE "C" NOT NULL,
  subtotal          bigint NOT NULL,
  discount          bigint NOT NULL,
  tax               bigint NOT NULL,
  shipping          bigint NOT NULL,
  total             bigint NOT NULL,
  metadata          jsonb NOT NULL DEFAULT '{}',
  placed_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT orders_number_key UNIQUE (tenant_id, number),
  CONSTRAINT orders_external_ref_key UNIQUE (tenant_id, external_ref, channel),
  CONSTRAINT orders_status_check CHECK (status IN ('pending', 'confirmed', 'shipped', 'delivered', 'canceled')),
  CONSTRAINT orders_number_format CHECK (number ~ '^[0-9A-Z][0-9A-Z-]{3,23}$'),
  CONSTRAINT orders_channel_format CHECK (channel ~ '^[a-z0-9][a-z0-9_.-]{0,31}$'),
  CONSTRAINT orders_external_ref_length CHECK (length(external_ref) BETWEEN 1 AND 100),
  CONSTRAINT orders_customer_ref_length CHECK (length(customer_ref) BETWEEN 1 AND 100),
  CONSTRAINT orders_version_positive CHECK (version >= 1),
  CONSTRAINT orders_currency_format CHECK (currency ~ '^[A-Z]{3}$'),
  CONSTRAINT orders_amounts_range CHECK (
    subtotal BETWEEN 0 AND 9007199254740991 AND discount BETWEEN 0 AND 9007199254740991
    AND tax BETWEEN 0 AND 9007199254740991 AND shipping BETWEEN 0 AND 9007199254740991
    AND total BETWEEN 0 AND 9007199254740991),
  CONSTRAINT orders_total_adds_up CHECK (total = subtotal - discount + tax + shipping),
  CONSTRAINT orders_metadata_object CHECK (jsonb_typeof(metadata) = 'object' AND pg_column_size(metadata) <= 131072),
  CONSTRAINT orders_transition_reason_passes CHECK (transition_reason IS NULL)
)`);
    await db.query(`COMMENT ON COLUMN waybill.orders.transition_reason IS
      'An argument of an UPDATE that changes status: a trigger hands it to the history and empties it.'`);
    // What each index is for: the list by time placed (all, by status, by channel, of a customer), and by time changed.
    // Prefixes of number and external_ref use the unique keys. The primary key is made last: on a table without statistics
    // every index with the id in it seems equally good, the planner takes the youngest, and a session keeps that plan.
    await db.query(`
CREATE INDEX orders_placed_idx ON waybill.orders (tenant_id, placed_at, id);
CREATE INDEX orders_status_placed_idx ON waybill.orders (tenant_id, status, placed_at, id);
CREATE INDEX orders_channel_placed_idx ON waybill.orders (tenant_id, channel, placed_at, id);
CREATE INDEX orders_customer_placed_idx ON waybill.orders (tenant_id, customer_ref, placed_at, id);
CREATE INDEX orders_updated_idx ON waybill.orders (tenant_id, updated_at, id);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id)`);

    await db.query(`
CREATE TABLE waybill.order_lines (
  tenant_id        bigint NOT NULL,
  order_id         uuid NOT NULL,
  line_no          smallint NOT NULL,
  sku              text NOT NULL,
  name             text NOT NULL,
  quantity         bigint NOT NULL,
  unit_price       bigint NOT NULL,
  discount         bigint NOT NULL,
  tax_rate_ppm     bigint NOT NULL,
  tax              bigint NOT NULL,
  total            bigint NOT NULL,
  shipped_quantity bigint NOT NULL DEFAULT 0,
  CONSTRAINT order_lines_pkey PRIMARY KEY (tenant_id, order_id, line_no),
  CONSTRAINT order_lines_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
  CONSTRAINT order_lines_line_no_range CHECK (line_no BETWEEN 1 AND 250),
  CONSTRAINT order_lines_sku_length CHECK (length(sku) BETWEEN 1 AND 100),
  CONSTRAINT order_lines_name_length CHECK (length(name) BETWEEN 1 AND 300),
  CONSTRAINT order_lines_quantity_range CHECK (quantity BETWEEN 1 AND 1000000),
  CONSTRAINT order_lines_unit_price_range CHECK (unit_price BETWEEN 0 AND 9000000000000),
  CONSTRAINT order_lines_amount_range CHECK (quantity * unit_price <= 9000000000000),
  CONSTRAINT order_lines_discount_range CHECK (discount BETWEEN 0 AND quantity * unit_price),
  CONSTRAINT order_lines_tax_rate_range CHECK (tax_rate_ppm BETWEEN 0 AND 1000000),
  CONSTRAINT order_lines_tax_half_up CHECK (tax = ((quantity * unit_price - discount) * tax_rate_ppm + 500000) / 1000000),
  CONSTRAINT order_lines_total_adds_up CHECK (total = quantity * unit_price - discount + tax),
  CONSTRAINT order_lines_shipped_range CHECK (shipped_quantity BETWEEN 0 AND quantity)
)`);
    await db.query(`
CREATE TABLE waybill.order_contacts (
  tenant_id bigint NOT NULL,
  order_id  uuid NOT NULL,
  field     text COLLATE "C" NOT NULL,
  version   int NOT NULL,
  salt      bytea NOT NULL,
  value     text NOT NULL,
  CONSTRAINT order_contacts_pkey PRIMARY KEY (tenant_id, order_id, field, version),
  CONSTRAINT order_contacts_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
  CONSTRAINT order_contacts_field_check CHECK (field IN ('customer', 'shippingAddress', 'billingAddress')),
  CONSTRAINT order_contacts_version_positive CHECK (version >= 1),
  CONSTRAINT order_contacts_salt_length CHECK (octet_length(salt) = 32),
  CONSTRAINT order_contacts_value_object CHECK (jsonb_typeof(value::jsonb) IN ('object', 'null') AND length(value) <= 16384)
)`);
    await db.query(`COMMENT ON TABLE waybill.order_contacts IS
      'All personal data of orders: a row for each field group and the order''s version that set it; the JSON value null takes a group away.'`);
    await db.query(`
CREATE TABLE waybill.order_status_history (
  tenant_id   bigint NOT NULL,
  order_id    uuid NOT NULL,
  seq         int NOT NULL,
  from_status text COLLATE "C",
  to_status   text COLLATE "C" NOT NULL,
  changed_by  uuid NOT NULL,
  changed_at  timestamptz NOT NULL,
  reason      text,
  request_id  text,
  CONSTRAINT order_status_history_pkey PRIMARY KEY (tenant_id, order_id, seq),
  CONSTRAINT order_status_history_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
  CONSTRAINT order_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users (tenant_id, id),
  CONSTRAINT order_status_history_begins CHECK ((seq = 1) = (from_status IS NULL)),
  CONSTRAINT order_status_history_reason_length CHECK (length(reason) BETWEEN 1 AND 500)
)`);
    for (const table of ['orders', 'order_lines', 'order_contacts', 'order_status_history']) {
      await db.query(`
ALTER TABLE waybill.${table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY ${table}_tenant ON waybill.${table} USING (${tenantOnly}) WITH CHECK (${tenantOnly});
CREATE TRIGGER ${table}_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.${table}
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
GRANT SELECT ON waybill.${table} TO waybill_app, waybill_audit`);
    }
    await db.query(`GRANT INSERT, UPDATE ON waybill.orders TO waybill_app`);

    await db.query(
      `INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('order', 'waybill.orders', 'pending')`,
    );
    await db.query(`
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason) VALUES
  ('order', 'pending', 'confirmed', '{operator,admin}', false),
  ('order', 'confirmed', 'shipped', '{operator,admin}', false),
  ('order', 'shipped', 'delivered', '{operator,admin}', false),
  ('order', 'pending', 'canceled', '{operator,admin}', true),
  ('order', 'confirmed', 'canceled', '{operator,admin}', true)`);
  }

  private async guards(db: QueryRunner): Promise<void> {
    await db.query(`
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
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.check_order_amounts IS
      'Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.'`);
    await db.query(`
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
$$`);
    await db.query(`
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
$$`);
    await db.query(`
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
$$`);
  }

  private async reading(db: QueryRunner): Promise<void> {
    // The same lines in the view and in the snapshot. Written out in both: a function in SQL would be planned at every call.
    const lines = `(
      SELECT jsonb_agg(jsonb_build_object('lineNo', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity,
               'unitPrice', l.unit_price, 'discount', l.discount, 'taxRatePpm', l.tax_rate_ppm, 'tax', l.tax,
               'total', l.total, 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no)
      FROM waybill.order_lines l WHERE l.tenant_id = o.tenant_id AND l.order_id = o.id)`;
    const utc = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
    await db.query(`
CREATE FUNCTION waybill.order_snapshot(p_tenant bigint, p_order uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT jsonb_build_object('id', o.id, 'number', o.number, 'channel', o.channel, 'externalRef', o.external_ref,
      'customerRef', o.customer_ref, 'status', o.status, 'version', o.version, 'currency', o.currency,
      'subtotal', o.subtotal, 'discount', o.discount, 'tax', o.tax, 'shipping', o.shipping, 'total', o.total,
      'metadata', o.metadata, 'placedAt', ${utc('o.placed_at')}, 'updatedAt', ${utc('o.updated_at')},
      'lines', ${lines},
      'contacts', (
        SELECT jsonb_object_agg(c.field, jsonb_build_object('version', c.version, 'digest', audit.pii_digest(c.salt, c.field, c.value)))
        FROM (SELECT DISTINCT ON (field) field, version, salt, value FROM waybill.order_contacts
              WHERE tenant_id = p_tenant AND order_id = p_order ORDER BY field, version DESC) c))
    FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order);
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.order_snapshot IS
      'An order as its events keep it: all that it is, with digests in the place of personal data.'`);
    await db.query(`
CREATE VIEW waybill.order_details WITH (security_invoker = true) AS
SELECT o.tenant_id, o.id, o.number, o.channel, o.external_ref, o.customer_ref, o.status, o.version, o.currency,
       o.subtotal, o.discount, o.tax, o.shipping, o.total, o.metadata, o.placed_at, o.updated_at,
       ${lines} AS lines,
       (SELECT jsonb_object_agg(c.field, c.value::jsonb)
        FROM (SELECT DISTINCT ON (field) field, value FROM waybill.order_contacts
              WHERE tenant_id = o.tenant_id AND order_id = o.id ORDER BY field, version DESC) c) AS contacts,
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = o.tenant_id AND e.stream = 'order/' || o.id AND e.version = o.version) AS event_hash
FROM waybill.orders o`);
    await db.query(`COMMENT ON VIEW waybill.order_details IS 'An order as the API shows it.'`);
    await db.query(`
GRANT SELECT ON waybill.order_details TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.order_snapshot TO waybill_audit`);
  }

  private async triggers(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE TRIGGER orders_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.orders
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('an order is canceled, never deleted');
CREATE TRIGGER orders_10_insert BEFORE INSERT ON waybill.orders
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('order');
CREATE TRIGGER orders_10_identity BEFORE UPDATE ON waybill.orders FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.id, NEW.number, NEW.channel, NEW.external_ref, NEW.customer_ref, NEW.currency, NEW.placed_at)
        IS DISTINCT FROM
        (OLD.tenant_id, OLD.id, OLD.number, OLD.channel, OLD.external_ref, OLD.customer_ref, OLD.currency, OLD.placed_at))
  EXECUTE FUNCTION waybill.refuse_change('tenant, id, number, channel, external_ref, customer_ref, currency and placed_at of an order never change');
CREATE TRIGGER orders_10_money BEFORE UPDATE ON waybill.orders FOR EACH ROW
  WHEN (OLD.status <> 'pending' AND (NEW.subtotal, NEW.discount, NEW.tax, NEW.shipping, NEW.total)
        IS DISTINCT FROM (OLD.subtotal, OLD.discount, OLD.tax, OLD.shipping, OLD.total))
  EXECUTE FUNCTION waybill.refuse_change('the amounts of an order are fixed once it is no longer pending');
CREATE TRIGGER orders_20_update BEFORE UPDATE ON waybill.orders
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('order', 'waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_30_history AFTER INSERT ON waybill.orders
  FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_40_adds_up_insert AFTER INSERT ON waybill.orders
  FOR EACH ROW EXECUTE FUNCTION waybill.order_adds_up();
CREATE TRIGGER orders_40_adds_up_update AFTER UPDATE ON waybill.orders FOR EACH ROW
  WHEN ((NEW.subtotal, NEW.discount, NEW.tax, NEW.total - NEW.shipping)
        IS DISTINCT FROM (OLD.subtotal, OLD.discount, OLD.tax, OLD.total - OLD.shipping))
  EXECUTE FUNCTION waybill.order_adds_up();
CREATE TRIGGER orders_50_event_insert AFTER INSERT ON waybill.orders FOR EACH ROW
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_50_event_update AFTER UPDATE ON waybill.orders FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version)
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id')`);
    await db.query(`
CREATE TRIGGER order_lines_00_no_truncate BEFORE TRUNCATE ON waybill.order_lines
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('lines belong to their order');
CREATE TRIGGER order_lines_10_identity BEFORE UPDATE ON waybill.order_lines FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.order_id, NEW.line_no) IS DISTINCT FROM (OLD.tenant_id, OLD.order_id, OLD.line_no))
  EXECUTE FUNCTION waybill.refuse_change('a line stays in its order and place');
CREATE TRIGGER order_lines_20_fixed_delete BEFORE DELETE ON waybill.order_lines
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_lines();
CREATE TRIGGER order_lines_20_fixed_update BEFORE UPDATE ON waybill.order_lines FOR EACH ROW
  WHEN ((NEW.sku, NEW.name, NEW.quantity, NEW.unit_price, NEW.discount, NEW.tax_rate_ppm, NEW.tax, NEW.total)
        IS DISTINCT FROM (OLD.sku, OLD.name, OLD.quantity, OLD.unit_price, OLD.discount, OLD.tax_rate_ppm, OLD.tax, OLD.total))
  EXECUTE FUNCTION waybill.guard_order_lines();
CREATE TRIGGER order_lines_40_adds_up_insert AFTER INSERT ON waybill.order_lines
  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up();
CREATE TRIGGER order_lines_40_adds_up_update AFTER UPDATE ON waybill.order_lines
  REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up();
CREATE TRIGGER order_lines_40_adds_up_delete AFTER DELETE ON waybill.order_lines
  REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up()`);
    await db.query(`
CREATE TRIGGER order_contacts_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one');
CREATE TRIGGER order_status_history_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.order_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');
CREATE TRIGGER order_status_history_00_by_trigger BEFORE INSERT ON waybill.order_status_history FOR EACH ROW
  WHEN (pg_trigger_depth() < 1)
  EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of orders; change the order')`);
  }

  private async commands(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE FUNCTION waybill.place_order(
  p_tenant bigint, p_id uuid, p_number text, p_channel text, p_external_ref text, p_customer_ref text, p_currency text,
  p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_metadata jsonb,
  p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[],
  p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[],
  p_fields text[], p_values text[], p_salts bytea[]) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
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
  WITH new_lines AS (
    INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
    SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
    FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
      WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
  ), new_contacts AS (
    INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
    SELECT p_tenant, p_id, c.field, 1, c.salt, c.value FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
  )
  INSERT INTO waybill.orders (tenant_id, id, number, channel, external_ref, customer_ref, status, version, currency,
                              subtotal, discount, tax, shipping, total, metadata, placed_at, updated_at)
  SELECT p_tenant, p_id, p_number, p_channel, p_external_ref, p_customer_ref, m.initial_state, 1, p_currency,
         p_subtotal, p_discount, p_tax, p_shipping, p_total, p_metadata, v_now, v_now
  FROM waybill.machines m WHERE m.machine = 'order';
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.place_order IS
      'Places an order with its lines and contacts and returns it. Amounts in minor units; arrays are parallel, one entry a line or contact.'`);

    await db.query(`
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
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.lock_order IS
      'Locks an order until the transaction ends and checks its version, unless that is null. A row of nulls when there is none.'`);

    await db.query(`
CREATE FUNCTION waybill.lock_order_details(p_tenant bigint, p_id uuid, p_expected_version int) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Two statements: one that both waits for the lock and reads would show what was there before it waited.
  PERFORM waybill.lock_order(p_tenant, p_id, p_expected_version);
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.lock_order_details IS
      'Locks an order as lock_order does and returns it; no row when there is none.'`);
    await db.query(`
CREATE FUNCTION waybill.transition_order(
  p_tenant bigint, p_id uuid, p_to text, p_reason text, p_expected_version int, p_metadata jsonb) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders := waybill.lock_order(p_tenant, p_id, p_expected_version);
BEGIN
  IF v_order.status = p_to THEN
    RAISE EXCEPTION 'order % is already %', p_id, p_to
      USING ERRCODE = 'WB011', DETAIL = jsonb_build_object('state', p_to)::text;
  END IF;
  UPDATE waybill.orders o SET status = p_to, transition_reason = p_reason, metadata = coalesce(p_metadata, o.metadata)
  WHERE o.tenant_id = p_tenant AND o.id = p_id;
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.transition_order IS
      'Moves an order to another state and returns it; no row when there is no such order. Metadata is replaced unless null.'`);

    await db.query(`
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
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.patch_order IS
      'Changes what may still change of an order, as one version, and returns it. Null leaves a part as it is; contacts are parallel arrays.'`);
    await db.query(`
GRANT EXECUTE ON FUNCTION waybill.place_order, waybill.lock_order_details, waybill.transition_order, waybill.patch_order TO waybill_app`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`
DROP FUNCTION waybill.patch_order, waybill.transition_order, waybill.place_order, waybill.lock_order_details, waybill.lock_order;
DROP VIEW waybill.order_details;
DROP TABLE waybill.order_status_history, waybill.order_contacts, waybill.order_lines, waybill.orders;
DROP FUNCTION waybill.order_snapshot, waybill.guard_order_lines,
              waybill.written_lines_add_up, waybill.order_adds_up, waybill.check_order_amounts;
DELETE FROM waybill.valid_transitions WHERE machine = 'order';
DELETE FROM waybill.machines WHERE machine = 'order'`);
  }
}
