CREATE DOMAIN waybill.order_number AS text COLLATE "C"
  CONSTRAINT order_number_format CHECK (length(VALUE) BETWEEN 4 AND 24 AND VALUE ~ '^[0-9A-Z][0-9A-Z-]+$');

CREATE DOMAIN waybill.channel AS text COLLATE "C"
  CONSTRAINT channel_format CHECK (length(VALUE) <= 32 AND VALUE ~ '^[a-z0-9][a-z0-9_.-]*$');

CREATE DOMAIN waybill.reference AS text COLLATE "C"
  -- Most are plain ASCII, and need no call.
  CONSTRAINT reference_form CHECK (length(VALUE) <= 100
    AND (VALUE ~ '^[!-~]*[!-\-/-~][!-~]*$' OR waybill.is_reference(VALUE)));

COMMENT ON DOMAIN waybill.reference IS 'What another system calls an order or a customer; see waybill.is_reference.';

-- 16 KiB of JSON text, which the API takes, can be six times as much in jsonb, where a digit and its comma are 12 bytes.
CREATE DOMAIN waybill.metadata AS jsonb
  CONSTRAINT metadata_object CHECK (jsonb_typeof(VALUE) = 'object' AND pg_column_size(VALUE) <= 131072);

CREATE DOMAIN waybill.line_no AS smallint
  CONSTRAINT line_no_range CHECK (VALUE BETWEEN 1 AND 250);

CREATE DOMAIN waybill.sku AS waybill.visible_text
  CONSTRAINT sku_length CHECK (length(VALUE) <= 100);

CREATE DOMAIN waybill.item_name AS waybill.visible_text
  CONSTRAINT item_name_length CHECK (length(VALUE) <= 300);

CREATE DOMAIN waybill.unit_price AS bigint
  CONSTRAINT unit_price_range CHECK (VALUE BETWEEN 0 AND 9000000000000);

COMMENT ON DOMAIN waybill.unit_price IS 'In minor units, and so low that the greatest quantity times it is a bigint.';

CREATE DOMAIN waybill.quantity AS bigint
  CONSTRAINT quantity_range CHECK (VALUE BETWEEN 1 AND 1000000);

CREATE DOMAIN waybill.contact_field AS text COLLATE "C"
  CONSTRAINT contact_field_check CHECK (VALUE IN ('customer', 'shippingAddress', 'billingAddress'));

CREATE DOMAIN waybill.contact AS text
  CONSTRAINT contact_object CHECK (length(VALUE) <= 16384 AND json_typeof(VALUE::json) IN ('object', 'null'));

COMMENT ON DOMAIN waybill.contact IS 'JSON text of a person or an address; null says that there is none any more.';

CREATE TABLE waybill.orders (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  number            waybill.order_number NOT NULL,
  channel           waybill.channel NOT NULL,
  external_ref      waybill.reference,
  customer_ref      waybill.reference NOT NULL,
  status            text COLLATE "C" NOT NULL DEFAULT 'pending',
  version           int NOT NULL DEFAULT 1,
  currency          waybill.currency_code NOT NULL,
  subtotal          waybill.minor_units NOT NULL,
  discount          waybill.minor_units NOT NULL,
  tax               waybill.minor_units NOT NULL,
  shipping          waybill.minor_units NOT NULL,
  total             waybill.minor_units NOT NULL,
  metadata          waybill.metadata NOT NULL DEFAULT '{}',
  placed_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT orders_number_key UNIQUE (tenant_id, number),
  CONSTRAINT orders_external_ref_key UNIQUE (tenant_id, external_ref, channel),
  -- No domain: it would refuse an unknown state before the guard can say what is allowed.
  CONSTRAINT orders_status_check CHECK (status IN ('pending', 'confirmed', 'shipped', 'delivered', 'canceled'))
);

COMMENT ON COLUMN waybill.orders.transition_reason IS
  'An argument of an UPDATE that changes status: a trigger hands it to the history and empties it.';

-- What each index is for: the list by time placed (all, by status, by channel, of a customer), and by time changed.
-- Prefixes of number and external_ref use the unique keys. The primary key is made last: on a table without statistics
-- every index with the id in it seems equally good, the planner takes the youngest, and a session keeps that plan.
CREATE INDEX orders_placed_idx ON waybill.orders (tenant_id, placed_at, id);
CREATE INDEX orders_status_placed_idx ON waybill.orders (tenant_id, status, placed_at, id);
CREATE INDEX orders_channel_placed_idx ON waybill.orders (tenant_id, channel, placed_at, id);
CREATE INDEX orders_customer_placed_idx ON waybill.orders (tenant_id, customer_ref, placed_at, id);
CREATE INDEX orders_updated_idx ON waybill.orders (tenant_id, updated_at, id);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id);

SELECT waybill.make_tenant_table('waybill.orders', 'an order is canceled, never deleted');

GRANT INSERT, UPDATE ON waybill.orders TO waybill_app;

CREATE TABLE waybill.order_lines (
  tenant_id        bigint NOT NULL,
  order_id         uuid NOT NULL,
  line_no          waybill.line_no NOT NULL,
  sku              waybill.sku NOT NULL,
  name             waybill.item_name NOT NULL,
  quantity         waybill.quantity NOT NULL,
  unit_price       waybill.unit_price NOT NULL,
  discount         waybill.minor_units NOT NULL,
  tax_rate_ppm     waybill.tax_rate_ppm NOT NULL,
  tax              waybill.minor_units NOT NULL,
  total            waybill.minor_units NOT NULL,
  shipped_quantity bigint NOT NULL DEFAULT 0,
  CONSTRAINT order_lines_pkey PRIMARY KEY (tenant_id, order_id, line_no),
  CONSTRAINT order_lines_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id)
);

SELECT waybill.make_tenant_table('waybill.order_lines', 'lines belong to their order', 'TRUNCATE');

GRANT SELECT ON waybill.order_lines TO waybill_audit;

CREATE TABLE waybill.order_contacts (
  tenant_id bigint NOT NULL,
  order_id  uuid NOT NULL,
  field     waybill.contact_field NOT NULL,
  version   int NOT NULL,
  salt      waybill.bytes32 NOT NULL,
  value     waybill.contact NOT NULL,
  digest    text NOT NULL,
  CONSTRAINT order_contacts_pkey PRIMARY KEY (tenant_id, order_id, field, version),
  CONSTRAINT order_contacts_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id)
);

COMMENT ON TABLE waybill.order_contacts IS
  'All personal data of orders: a row for each field group and the order''s version that set it; the JSON value null takes a group away.';

COMMENT ON COLUMN waybill.order_contacts.digest IS
  'audit.pii_digest of salt, field and value, in hexadecimal, as the order''s events hold it; a trigger computes it.';

SELECT waybill.make_tenant_table('waybill.order_contacts', 'contacts are kept in versions: waybill.patch_order adds one', 'UPDATE OR TRUNCATE');

GRANT SELECT, DELETE ON waybill.order_contacts TO waybill_audit;

CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by waybill.erase_customer, which leaves an event');

ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_erasure;
