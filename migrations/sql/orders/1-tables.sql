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
);

COMMENT ON COLUMN waybill.orders.transition_reason IS
  'An argument of an UPDATE that changes status: a trigger hands it to the history and empties it.';

CREATE INDEX orders_placed_idx ON waybill.orders (tenant_id, placed_at, id);

CREATE INDEX orders_status_placed_idx ON waybill.orders (tenant_id, status, placed_at, id);

CREATE INDEX orders_channel_placed_idx ON waybill.orders (tenant_id, channel, placed_at, id);

CREATE INDEX orders_customer_placed_idx ON waybill.orders (tenant_id, customer_ref, placed_at, id);

CREATE INDEX orders_updated_idx ON waybill.orders (tenant_id, updated_at, id);

ALTER TABLE waybill.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id);

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
);

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
);

COMMENT ON TABLE waybill.order_contacts IS
  'All personal data of orders: a row for each field group and the order''s version that set it; the JSON value null takes a group away.';

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
);

ALTER TABLE waybill.orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY orders_tenant ON waybill.orders USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT SELECT ON waybill.orders TO waybill_app, waybill_audit;

ALTER TABLE waybill.order_lines ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY order_lines_tenant ON waybill.order_lines USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT SELECT ON waybill.order_lines TO waybill_app, waybill_audit;

ALTER TABLE waybill.order_contacts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY order_contacts_tenant ON waybill.order_contacts USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT SELECT ON waybill.order_contacts TO waybill_app, waybill_audit;

ALTER TABLE waybill.order_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY order_status_history_tenant ON waybill.order_status_history USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT SELECT ON waybill.order_status_history TO waybill_app, waybill_audit;

GRANT INSERT, UPDATE ON waybill.orders TO waybill_app;
