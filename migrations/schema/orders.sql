-- What the area orders makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('order', 'waybill.orders', 'pending');

CREATE TABLE waybill.order_contacts (
  tenant_id bigint NOT NULL,
  order_id uuid NOT NULL,
  field text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  salt bytea NOT NULL,
  value text NOT NULL
);
ALTER TABLE waybill.order_contacts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_field_check CHECK ((field = ANY (ARRAY['customer'::text, 'shippingAddress'::text, 'billingAddress'::text])));
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_pkey PRIMARY KEY (tenant_id, order_id, field, version);
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_salt_length CHECK ((octet_length(salt) = 32));
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_value_object CHECK (((jsonb_typeof((value)::jsonb) = ANY (ARRAY['object'::text, 'null'::text])) AND (length(value) <= 16384)));
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_version_positive CHECK ((version >= 1));
CREATE POLICY order_contacts_tenant ON waybill.order_contacts FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER order_contacts_00_append_only BEFORE UPDATE OR TRUNCATE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one');
CREATE TRIGGER order_contacts_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by audit.erase_customer, which leaves an event');
ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_append_only;
ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_erasure;
GRANT SELECT ON waybill.order_contacts TO waybill_app;
GRANT DELETE ON waybill.order_contacts TO waybill_audit;
GRANT SELECT ON waybill.order_contacts TO waybill_audit;
COMMENT ON TABLE waybill.order_contacts IS 'All personal data of orders: a row for each field group and the order''s version that set it; the JSON value null takes a group away.';

CREATE TABLE waybill.order_lines (
  tenant_id bigint NOT NULL,
  order_id uuid NOT NULL,
  line_no smallint NOT NULL,
  sku text NOT NULL,
  name text NOT NULL,
  quantity bigint NOT NULL,
  unit_price bigint NOT NULL,
  discount bigint NOT NULL,
  tax_rate_ppm bigint NOT NULL,
  tax bigint NOT NULL,
  total bigint NOT NULL,
  shipped_quantity bigint DEFAULT 0 NOT NULL
);
ALTER TABLE waybill.order_lines ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_amount_range CHECK (((quantity * unit_price) <= '9000000000000'::bigint));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_discount_range CHECK (((discount >= 0) AND (discount <= (quantity * unit_price))));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_line_no_range CHECK (((line_no >= 1) AND (line_no <= 250)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_name_length CHECK (((length(name) >= 1) AND (length(name) <= 300)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_pkey PRIMARY KEY (tenant_id, order_id, line_no);
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_quantity_range CHECK (((quantity >= 1) AND (quantity <= 1000000)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_shipped_range CHECK (((shipped_quantity >= 0) AND (shipped_quantity <= quantity)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_sku_length CHECK (((length(sku) >= 1) AND (length(sku) <= 100)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_tax_half_up CHECK ((tax = (((((quantity * unit_price) - discount) * tax_rate_ppm) + 500000) / 1000000)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_tax_rate_range CHECK (((tax_rate_ppm >= 0) AND (tax_rate_ppm <= 1000000)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_total_adds_up CHECK ((total = (((quantity * unit_price) - discount) + tax)));
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_unit_price_range CHECK (((unit_price >= 0) AND (unit_price <= '9000000000000'::bigint)));
CREATE POLICY order_lines_tenant ON waybill.order_lines FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER order_lines_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_lines FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER order_lines_00_no_truncate BEFORE TRUNCATE ON waybill.order_lines FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('lines belong to their order');
CREATE TRIGGER order_lines_10_identity BEFORE UPDATE ON waybill.order_lines FOR EACH ROW WHEN ((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.order_id IS DISTINCT FROM old.order_id)) OR (new.line_no IS DISTINCT FROM old.line_no))) EXECUTE FUNCTION waybill.refuse_change('a line stays in its order and place');
CREATE TRIGGER order_lines_20_fixed_delete BEFORE DELETE ON waybill.order_lines FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_lines();
CREATE TRIGGER order_lines_20_fixed_update BEFORE UPDATE ON waybill.order_lines FOR EACH ROW WHEN (((((((((new.sku IS DISTINCT FROM old.sku) OR (new.name IS DISTINCT FROM old.name)) OR (new.quantity IS DISTINCT FROM old.quantity)) OR (new.unit_price IS DISTINCT FROM old.unit_price)) OR (new.discount IS DISTINCT FROM old.discount)) OR (new.tax_rate_ppm IS DISTINCT FROM old.tax_rate_ppm)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.total IS DISTINCT FROM old.total))) EXECUTE FUNCTION waybill.guard_order_lines();
CREATE TRIGGER order_lines_40_adds_up_delete AFTER DELETE ON waybill.order_lines REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up();
CREATE TRIGGER order_lines_40_adds_up_insert AFTER INSERT ON waybill.order_lines REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up();
CREATE TRIGGER order_lines_40_adds_up_update AFTER UPDATE ON waybill.order_lines REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up();
GRANT SELECT ON waybill.order_lines TO waybill_app;
GRANT SELECT ON waybill.order_lines TO waybill_audit;

CREATE TABLE waybill.order_status_history (
  tenant_id bigint NOT NULL,
  order_id uuid NOT NULL,
  seq integer NOT NULL,
  from_status text COLLATE "C",
  to_status text COLLATE "C" NOT NULL,
  changed_by uuid NOT NULL,
  changed_at timestamp with time zone NOT NULL,
  reason text,
  request_id text
);
ALTER TABLE waybill.order_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_begins CHECK (((seq = 1) = (from_status IS NULL)));
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_pkey PRIMARY KEY (tenant_id, order_id, seq);
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_reason_length CHECK (((length(reason) >= 1) AND (length(reason) <= 500)));
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id);
CREATE POLICY order_status_history_tenant ON waybill.order_status_history FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER order_status_history_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.order_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');
CREATE TRIGGER order_status_history_00_by_trigger BEFORE INSERT ON waybill.order_status_history FOR EACH ROW WHEN ((pg_trigger_depth() < 1)) EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of orders; change the order');
CREATE TRIGGER order_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
ALTER TABLE waybill.order_status_history ENABLE ALWAYS TRIGGER order_status_history_00_append_only;
GRANT SELECT ON waybill.order_status_history TO waybill_app;
GRANT SELECT ON waybill.order_status_history TO waybill_audit;

CREATE TABLE waybill.orders (
  tenant_id bigint NOT NULL,
  id uuid NOT NULL,
  number text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  external_ref text COLLATE "C",
  customer_ref text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  currency text COLLATE "C" NOT NULL,
  subtotal bigint NOT NULL,
  discount bigint NOT NULL,
  tax bigint NOT NULL,
  shipping bigint NOT NULL,
  total bigint NOT NULL,
  metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
  placed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  transition_reason text
);
ALTER TABLE waybill.orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.orders ADD CONSTRAINT orders_amounts_range CHECK ((((subtotal >= 0) AND (subtotal <= '9007199254740991'::bigint)) AND ((discount >= 0) AND (discount <= '9007199254740991'::bigint)) AND ((tax >= 0) AND (tax <= '9007199254740991'::bigint)) AND ((shipping >= 0) AND (shipping <= '9007199254740991'::bigint)) AND ((total >= 0) AND (total <= '9007199254740991'::bigint))));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_channel_format CHECK ((channel ~ '^[a-z0-9][a-z0-9_.-]{0,31}$'::text));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_currency_format CHECK ((currency ~ '^[A-Z]{3}$'::text));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_customer_ref_length CHECK (((length(customer_ref) >= 1) AND (length(customer_ref) <= 100)));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_external_ref_key UNIQUE (tenant_id, external_ref, channel);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_external_ref_length CHECK (((length(external_ref) >= 1) AND (length(external_ref) <= 100)));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_metadata_object CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (pg_column_size(metadata) <= 131072)));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_number_format CHECK ((number ~ '^[0-9A-Z][0-9A-Z-]{3,23}$'::text));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_number_key UNIQUE (tenant_id, number);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'confirmed'::text, 'shipped'::text, 'delivered'::text, 'canceled'::text])));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_total_adds_up CHECK ((total = (((subtotal - discount) + tax) + shipping)));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_transition_reason_passes CHECK ((transition_reason IS NULL));
ALTER TABLE waybill.orders ADD CONSTRAINT orders_version_positive CHECK ((version >= 1));
CREATE INDEX orders_channel_placed_idx ON waybill.orders USING btree (tenant_id, channel, placed_at, id);
CREATE INDEX orders_customer_placed_idx ON waybill.orders USING btree (tenant_id, customer_ref, placed_at, id);
CREATE INDEX orders_placed_idx ON waybill.orders USING btree (tenant_id, placed_at, id);
CREATE INDEX orders_status_placed_idx ON waybill.orders USING btree (tenant_id, status, placed_at, id);
CREATE INDEX orders_updated_idx ON waybill.orders USING btree (tenant_id, updated_at, id);
CREATE POLICY orders_tenant ON waybill.orders FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER orders_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.orders FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER orders_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.orders FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('an order is canceled, never deleted');
CREATE TRIGGER orders_10_identity BEFORE UPDATE ON waybill.orders FOR EACH ROW WHEN (((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.number IS DISTINCT FROM old.number)) OR (new.channel IS DISTINCT FROM old.channel)) OR (new.external_ref IS DISTINCT FROM old.external_ref)) OR (new.customer_ref IS DISTINCT FROM old.customer_ref)) OR (new.currency IS DISTINCT FROM old.currency)) OR (new.placed_at IS DISTINCT FROM old.placed_at))) EXECUTE FUNCTION waybill.refuse_change('tenant, id, number, channel, external_ref, customer_ref, currency and placed_at of an order never change');
CREATE TRIGGER orders_10_insert BEFORE INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('order');
CREATE TRIGGER orders_10_money BEFORE UPDATE ON waybill.orders FOR EACH ROW WHEN (((old.status <> 'pending'::text) AND (((((new.subtotal IS DISTINCT FROM old.subtotal) OR (new.discount IS DISTINCT FROM old.discount)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.shipping IS DISTINCT FROM old.shipping)) OR (new.total IS DISTINCT FROM old.total)))) EXECUTE FUNCTION waybill.refuse_change('the amounts of an order are fixed once it is no longer pending');
CREATE TRIGGER orders_20_update BEFORE UPDATE ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('order', 'waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_30_history AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_40_adds_up_insert AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.order_adds_up();
CREATE TRIGGER orders_40_adds_up_update AFTER UPDATE ON waybill.orders FOR EACH ROW WHEN (((((new.subtotal IS DISTINCT FROM old.subtotal) OR (new.discount IS DISTINCT FROM old.discount)) OR (new.tax IS DISTINCT FROM old.tax)) OR ((new.total - new.shipping) IS DISTINCT FROM (old.total - old.shipping)))) EXECUTE FUNCTION waybill.order_adds_up();
CREATE TRIGGER orders_50_event_erasure AFTER UPDATE ON waybill.orders FOR EACH ROW WHEN (((new.version IS DISTINCT FROM old.version) AND (CURRENT_USER = 'waybill_audit'::name))) EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id', 'customer.erased');
CREATE TRIGGER orders_50_event_insert AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_50_event_update AFTER UPDATE ON waybill.orders FOR EACH ROW WHEN (((new.version IS DISTINCT FROM old.version) AND (CURRENT_USER <> 'waybill_audit'::name))) EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id');
GRANT INSERT ON waybill.orders TO waybill_app;
GRANT SELECT ON waybill.orders TO waybill_app;
GRANT UPDATE ON waybill.orders TO waybill_app;
GRANT SELECT ON waybill.orders TO waybill_audit;
GRANT UPDATE (version) ON waybill.orders TO waybill_audit;
COMMENT ON COLUMN waybill.orders.transition_reason IS 'An argument of an UPDATE that changes status: a trigger hands it to the history and empties it.';

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('order', 'confirmed', 'canceled', '{operator,admin}', 'true', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('order', 'confirmed', 'shipped', '{operator,admin}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('order', 'pending', 'canceled', '{operator,admin}', 'true', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('order', 'pending', 'confirmed', '{operator,admin}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('order', 'shipped', 'delivered', '{operator,admin}', 'false', '{}');

CREATE VIEW waybill.order_details WITH (security_invoker=true) AS
 SELECT tenant_id,
    id,
    number,
    channel,
    external_ref,
    customer_ref,
    status,
    version,
    currency,
    subtotal,
    discount,
    tax,
    shipping,
    total,
    metadata,
    placed_at,
    updated_at,
    ( SELECT jsonb_agg(jsonb_build_object('lineNo', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity, 'unitPrice', l.unit_price, 'discount', l.discount, 'taxRatePpm', l.tax_rate_ppm, 'tax', l.tax, 'total', l.total, 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no) AS jsonb_agg
           FROM waybill.order_lines l
          WHERE ((l.tenant_id = o.tenant_id) AND (l.order_id = o.id))) AS lines,
    ( SELECT jsonb_object_agg(c.field, (c.value)::jsonb) AS jsonb_object_agg
           FROM ( SELECT DISTINCT ON (order_contacts.field) order_contacts.field,
                    order_contacts.value
                   FROM waybill.order_contacts
                  WHERE ((order_contacts.tenant_id = o.tenant_id) AND (order_contacts.order_id = o.id))
                  ORDER BY order_contacts.field, order_contacts.version DESC) c) AS contacts,
    ( SELECT encode(e.event_hash, 'hex'::text) AS encode
           FROM audit.events e
          WHERE ((e.tenant_id = o.tenant_id) AND (e.stream = ('order/'::text || o.id)) AND (e.version = o.version))) AS event_hash
   FROM waybill.orders o;
GRANT SELECT ON waybill.order_details TO waybill_app;
COMMENT ON VIEW waybill.order_details IS 'An order as the API shows it.';

CREATE VIEW waybill.order_documents WITH (security_invoker=true) AS
 SELECT d.tenant_id,
    d.id,
    d.number,
    d.channel,
    d.external_ref,
    d.customer_ref,
    d.status,
    d.version,
    d.currency,
    d.subtotal,
    d.discount,
    d.tax,
    d.shipping,
    d.total,
    d.metadata,
    d.placed_at,
    d.updated_at,
    ( SELECT json_agg(row_to_json(r.*)) AS json_agg
           FROM ( SELECT l.sku,
                    l.tax,
                    l.name,
                    l.total,
                    l.line_no AS "lineNo",
                    l.discount,
                    l.quantity,
                    l.unit_price AS "unitPrice",
                    l.tax_rate_ppm AS "taxRatePpm",
                    l.shipped_quantity AS "shippedQuantity"
                   FROM waybill.order_lines l
                  WHERE ((l.tenant_id = d.tenant_id) AND (l.order_id = d.id))
                  ORDER BY l.line_no) r) AS lines,
    d.contacts,
    d.event_hash,
    c.customer,
    c.shipping_address,
    c.billing_address
   FROM (waybill.order_details d
     CROSS JOIN LATERAL ( SELECT max(latest.value) FILTER (WHERE (latest.field = 'customer'::text)) AS customer,
            max(latest.value) FILTER (WHERE (latest.field = 'shippingAddress'::text)) AS shipping_address,
            max(latest.value) FILTER (WHERE (latest.field = 'billingAddress'::text)) AS billing_address
           FROM ( SELECT DISTINCT ON (o.field) o.field,
                    o.value
                   FROM waybill.order_contacts o
                  WHERE ((o.tenant_id = d.tenant_id) AND (o.order_id = d.id))
                  ORDER BY o.field, o.version DESC) latest) c);
GRANT SELECT ON waybill.order_documents TO waybill_app;
COMMENT ON VIEW waybill.order_documents IS 'An order as the API shows it, for reading: lines as json, contacts as the text of their JSON.';

CREATE OR REPLACE FUNCTION audit.erase_contacts(p_tenant bigint, p_orders uuid[])
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_erased int;
BEGIN
  -- One statement: contacts go only together with the version whose event tells of it.
  WITH gone AS (
    DELETE FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = ANY (p_orders) RETURNING c.order_id
  )
  UPDATE waybill.orders o SET version = o.version + 1
  WHERE o.tenant_id = p_tenant AND o.id IN (SELECT g.order_id FROM gone g);
  GET DIAGNOSTICS v_erased = ROW_COUNT;
  RETURN v_erased;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.erase_contacts(bigint,uuid[]) TO waybill_owner;
COMMENT ON FUNCTION audit.erase_contacts(bigint,uuid[]) IS 'Deletes the contacts of orders in all their versions, with their salts, and appends customer.erased to each order''s stream. For waybill.erase_customer.';

CREATE OR REPLACE FUNCTION waybill.check_order_amounts(p_tenant bigint, p_order uuid)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.check_order_amounts(bigint,uuid) IS 'Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.';

CREATE OR REPLACE FUNCTION waybill.erase_customer(p_tenant bigint, p_customer_ref text, p_limit integer)
 RETURNS TABLE(known boolean, erased integer, remaining boolean)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_ids uuid[];
BEGIN
  IF NOT 'admin' = ANY (string_to_array(coalesce(current_setting('waybill.roles', true), ''), ',')) THEN
    RAISE EXCEPTION 'Erasing a customer takes the role admin'
      USING ERRCODE = 'WB013', DETAIL = '{"roles": ["admin"]}', HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
  -- Locked in the order of their ids, as everybody locks who locks several.
  SELECT array_agg(l.id) INTO v_ids FROM (
    SELECT o.id FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref
      AND EXISTS (SELECT FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = o.id)
    ORDER BY o.id LIMIT p_limit FOR NO KEY UPDATE) l;
  erased := CASE WHEN v_ids IS NULL THEN 0 ELSE audit.erase_contacts(p_tenant, v_ids) END;
  -- Answers kept under an idempotency key show the same personal data.
  PERFORM waybill.erase_answers(p_tenant, (SELECT array_agg('order/' || i) FROM unnest(v_ids) i));
  known := EXISTS (SELECT FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref);
  remaining := EXISTS (
    SELECT FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref
      AND EXISTS (SELECT FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = o.id));
  RETURN NEXT;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.erase_customer(bigint,text,integer) TO waybill_app;
COMMENT ON FUNCTION waybill.erase_customer(bigint,text,integer) IS 'Erases the personal data of at most p_limit of a customer''s orders. Says whether there is such a customer, how many orders were erased, and whether some are left.';

CREATE OR REPLACE FUNCTION waybill.guard_order_lines()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_status text;
BEGIN
  SELECT o.status INTO v_status FROM waybill.orders o WHERE o.tenant_id = OLD.tenant_id AND o.id = OLD.order_id;
  IF v_status <> 'pending' THEN
    RAISE EXCEPTION 'the lines of order % are fixed: it is %', OLD.order_id, v_status USING ERRCODE = 'WB015';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$function$;

CREATE OR REPLACE FUNCTION waybill.lock_order(p_tenant bigint, p_id uuid, p_expected_version integer)
 RETURNS waybill.orders
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.lock_order(bigint,uuid,integer) IS 'Locks an order until the transaction ends and checks its version, unless that is null. A row of nulls when there is none.';

CREATE OR REPLACE FUNCTION waybill.lock_order_details(p_tenant bigint, p_id uuid, p_expected_version integer)
 RETURNS SETOF waybill.order_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  -- Two statements: one that both waits for the lock and reads would show what was there before it waited.
  PERFORM waybill.lock_order(p_tenant, p_id, p_expected_version);
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.lock_order_details(bigint,uuid,integer) TO waybill_app;
COMMENT ON FUNCTION waybill.lock_order_details(bigint,uuid,integer) IS 'Locks an order as lock_order does and returns it; no row when there is none.';

CREATE OR REPLACE FUNCTION waybill.order_adds_up()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION waybill.order_missing_values(p_tenant bigint, p_orders uuid[])
 RETURNS TABLE(id uuid, field text, version bigint, state text)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.order_missing_values(bigint,uuid[]) TO waybill_audit;
COMMENT ON FUNCTION waybill.order_missing_values(bigint,uuid[]) IS 'Contacts whose digest stands in an event of these orders, but whose value is gone without an erasure, or is another one.';

CREATE OR REPLACE FUNCTION waybill.order_snapshot(p_tenant bigint, p_order uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.order_snapshot(bigint,uuid) TO waybill_audit;
COMMENT ON FUNCTION waybill.order_snapshot(bigint,uuid) IS 'An order as its events keep it: all that it is, with digests in the place of personal data.';

CREATE OR REPLACE FUNCTION waybill.patch_order(p_tenant bigint, p_id uuid, p_expected_version integer, p_metadata jsonb, p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[], p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[], p_fields text[], p_values text[], p_salts bytea[])
 RETURNS SETOF waybill.order_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.patch_order(bigint,uuid,integer,jsonb,bigint,bigint,bigint,bigint,bigint,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) TO waybill_app;
COMMENT ON FUNCTION waybill.patch_order(bigint,uuid,integer,jsonb,bigint,bigint,bigint,bigint,bigint,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) IS 'Changes what may still change of an order, as one version, and returns it. Null leaves a part as it is; contacts are parallel arrays.';

CREATE OR REPLACE FUNCTION waybill.place_order(p_tenant bigint, p_id uuid, p_number text, p_channel text, p_external_ref text, p_customer_ref text, p_currency text, p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_metadata jsonb, p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[], p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[], p_fields text[], p_values text[], p_salts bytea[])
 RETURNS SETOF waybill.order_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.place_order(bigint,uuid,text,text,text,text,text,bigint,bigint,bigint,bigint,bigint,jsonb,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) TO waybill_app;
COMMENT ON FUNCTION waybill.place_order(bigint,uuid,text,text,text,text,text,bigint,bigint,bigint,bigint,bigint,jsonb,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) IS 'Places an order with its lines and contacts and returns it. Amounts in minor units; arrays are parallel, one entry a line or contact.';

CREATE OR REPLACE FUNCTION waybill.transition_order(p_tenant bigint, p_id uuid, p_to text, p_reason text, p_expected_version integer, p_metadata jsonb)
 RETURNS SETOF waybill.order_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.transition_order(bigint,uuid,text,text,integer,jsonb) TO waybill_app;
COMMENT ON FUNCTION waybill.transition_order(bigint,uuid,text,text,integer,jsonb) IS 'Moves an order to another state and returns it; no row when there is no such order. Metadata is replaced unless null.';

CREATE OR REPLACE FUNCTION waybill.written_lines_add_up()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
