-- What the area orders makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE DOMAIN waybill.channel AS text COLLATE "C";
ALTER DOMAIN waybill.channel ADD CONSTRAINT channel_format CHECK (((length(VALUE) <= 32) AND (VALUE ~ '^[a-z0-9][a-z0-9_.-]*$'::text)));

CREATE DOMAIN waybill.contact AS text;
ALTER DOMAIN waybill.contact ADD CONSTRAINT contact_object CHECK (((length(VALUE) <= 16384) AND (json_typeof((VALUE)::json) = ANY (ARRAY['object'::text, 'null'::text]))));
COMMENT ON DOMAIN waybill.contact IS 'JSON text of a person or an address; null says that there is none any more.';

CREATE DOMAIN waybill.contact_field AS text COLLATE "C";
ALTER DOMAIN waybill.contact_field ADD CONSTRAINT contact_field_check CHECK ((VALUE = ANY (ARRAY['customer'::text, 'shippingAddress'::text, 'billingAddress'::text])));

CREATE DOMAIN waybill.item_name AS waybill.visible_text;
ALTER DOMAIN waybill.item_name ADD CONSTRAINT item_name_length CHECK ((length((VALUE)::text) <= 300));

CREATE DOMAIN waybill.line_no AS smallint;
ALTER DOMAIN waybill.line_no ADD CONSTRAINT line_no_range CHECK (((VALUE >= 1) AND (VALUE <= 250)));

CREATE DOMAIN waybill.metadata AS jsonb;
ALTER DOMAIN waybill.metadata ADD CONSTRAINT metadata_object CHECK (((jsonb_typeof(VALUE) = 'object'::text) AND (pg_column_size(VALUE) <= 131072)));

CREATE DOMAIN waybill.order_number AS text COLLATE "C";
ALTER DOMAIN waybill.order_number ADD CONSTRAINT order_number_format CHECK ((((length(VALUE) >= 4) AND (length(VALUE) <= 24)) AND (VALUE ~ '^[0-9A-Z][0-9A-Z-]+$'::text)));

CREATE DOMAIN waybill.quantity AS bigint;
ALTER DOMAIN waybill.quantity ADD CONSTRAINT quantity_range CHECK (((VALUE >= 1) AND (VALUE <= 1000000)));

CREATE DOMAIN waybill.reference AS text COLLATE "C";
ALTER DOMAIN waybill.reference ADD CONSTRAINT reference_form CHECK (((length(VALUE) <= 100) AND ((VALUE ~ '^[!-~]*[!-\-/-~][!-~]*$'::text) OR waybill.is_reference(VALUE))));
COMMENT ON DOMAIN waybill.reference IS 'What another system calls an order or a customer; see waybill.is_reference.';

CREATE DOMAIN waybill.sku AS waybill.visible_text;
ALTER DOMAIN waybill.sku ADD CONSTRAINT sku_length CHECK ((length((VALUE)::text) <= 100));

CREATE DOMAIN waybill.unit_price AS bigint;
ALTER DOMAIN waybill.unit_price ADD CONSTRAINT unit_price_range CHECK (((VALUE >= 0) AND (VALUE <= '9000000000000'::bigint)));
COMMENT ON DOMAIN waybill.unit_price IS 'In minor units, and so low that the greatest quantity times it is a bigint.';

INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('order', 'waybill.orders', 'pending');

CREATE TABLE waybill.order_contacts (
  tenant_id bigint NOT NULL,
  order_id uuid NOT NULL,
  field waybill.contact_field NOT NULL,
  version integer NOT NULL,
  salt waybill.bytes32 NOT NULL,
  value waybill.contact NOT NULL,
  digest text NOT NULL
);
ALTER TABLE waybill.order_contacts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.order_contacts ADD CONSTRAINT order_contacts_pkey PRIMARY KEY (tenant_id, order_id, field, version);
CREATE POLICY order_contacts_tenant ON waybill.order_contacts FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER order_contacts_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by waybill.erase_customer, which leaves an event');
CREATE TRIGGER order_contacts_00_refused BEFORE UPDATE OR TRUNCATE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one');
CREATE TRIGGER order_contacts_20_guard BEFORE INSERT ON waybill.order_contacts FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_contact();
ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_erasure;
ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_refused;
GRANT SELECT ON waybill.order_contacts TO waybill_app;
GRANT DELETE ON waybill.order_contacts TO waybill_audit;
GRANT SELECT ON waybill.order_contacts TO waybill_audit;
COMMENT ON COLUMN waybill.order_contacts.digest IS 'audit.pii_digest of salt, field and value, in hexadecimal, as the order''s events hold it; a trigger computes it.';
COMMENT ON TABLE waybill.order_contacts IS 'All personal data of orders: a row for each field group and the order''s version that set it; the JSON value null takes a group away.';

CREATE TABLE waybill.order_lines (
  tenant_id bigint NOT NULL,
  order_id uuid NOT NULL,
  line_no waybill.line_no NOT NULL,
  sku waybill.sku NOT NULL,
  name waybill.item_name NOT NULL,
  quantity waybill.quantity NOT NULL,
  unit_price waybill.unit_price NOT NULL,
  discount waybill.minor_units NOT NULL,
  tax_rate_ppm waybill.tax_rate_ppm NOT NULL,
  tax waybill.minor_units NOT NULL,
  total waybill.minor_units NOT NULL,
  shipped_quantity bigint DEFAULT 0 NOT NULL
);
ALTER TABLE waybill.order_lines ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.order_lines ADD CONSTRAINT order_lines_pkey PRIMARY KEY (tenant_id, order_id, line_no);
CREATE POLICY order_lines_tenant ON waybill.order_lines FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER order_lines_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_lines FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER order_lines_00_refused BEFORE TRUNCATE ON waybill.order_lines FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('lines belong to their order');
CREATE TRIGGER order_lines_20_guard BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_lines FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_line();
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
  reason waybill.reason,
  request_id text,
  rule_version integer
);
ALTER TABLE waybill.order_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_pkey PRIMARY KEY (tenant_id, order_id, seq);
ALTER TABLE waybill.order_status_history ADD CONSTRAINT order_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id);
CREATE POLICY order_status_history_tenant ON waybill.order_status_history FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER order_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER order_status_history_00_refused BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.order_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');
CREATE TRIGGER order_status_history_10_guard BEFORE INSERT ON waybill.order_status_history FOR EACH ROW EXECUTE FUNCTION waybill.guard_history();
ALTER TABLE waybill.order_status_history ENABLE ALWAYS TRIGGER order_status_history_00_refused;
GRANT SELECT ON waybill.order_status_history TO waybill_app;
GRANT INSERT ON waybill.order_status_history TO waybill_audit;
GRANT SELECT ON waybill.order_status_history TO waybill_audit;

CREATE TABLE waybill.orders (
  tenant_id bigint NOT NULL,
  id uuid NOT NULL,
  number waybill.order_number NOT NULL,
  channel waybill.channel NOT NULL,
  external_ref waybill.reference,
  customer_ref waybill.reference NOT NULL,
  status text COLLATE "C" DEFAULT 'pending'::text NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  currency waybill.currency_code NOT NULL,
  subtotal waybill.minor_units NOT NULL,
  discount waybill.minor_units NOT NULL,
  tax waybill.minor_units NOT NULL,
  shipping waybill.minor_units NOT NULL,
  total waybill.minor_units NOT NULL,
  metadata waybill.metadata DEFAULT '{}'::jsonb NOT NULL,
  placed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  transition_reason text
);
ALTER TABLE waybill.orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.orders ADD CONSTRAINT orders_external_ref_key UNIQUE (tenant_id, external_ref, channel);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_number_key UNIQUE (tenant_id, number);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'confirmed'::text, 'shipped'::text, 'delivered'::text, 'canceled'::text])));
CREATE INDEX orders_channel_placed_idx ON waybill.orders USING btree (tenant_id, channel, placed_at, id);
CREATE INDEX orders_customer_placed_idx ON waybill.orders USING btree (tenant_id, customer_ref, placed_at, id);
CREATE INDEX orders_placed_idx ON waybill.orders USING btree (tenant_id, placed_at, id);
CREATE INDEX orders_status_placed_idx ON waybill.orders USING btree (tenant_id, status, placed_at, id);
CREATE INDEX orders_updated_idx ON waybill.orders USING btree (tenant_id, updated_at, id);
CREATE POLICY orders_tenant ON waybill.orders FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER orders_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.orders FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER orders_00_refused BEFORE DELETE OR TRUNCATE ON waybill.orders FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('an order is canceled, never deleted');
CREATE TRIGGER orders_20_guard BEFORE INSERT OR UPDATE ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.guard_order();
CREATE TRIGGER orders_40_amounts AFTER INSERT OR UPDATE ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_amounts();
CREATE TRIGGER orders_50_record_insert AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION audit.record_order();
CREATE TRIGGER orders_50_record_update AFTER UPDATE ON waybill.orders FOR EACH ROW EXECUTE FUNCTION audit.record_order();
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
 SELECT o.tenant_id,
    o.id,
    o.number,
    o.channel,
    o.external_ref,
    o.customer_ref,
    o.status,
    o.version,
    o.currency,
    o.subtotal,
    o.discount,
    o.tax,
    o.shipping,
    o.total,
    o.metadata,
    o.placed_at,
    o.updated_at,
    ( SELECT COALESCE((('['::text || string_agg(l."json", ','::text)) || ']'::text), '[]'::text) AS "coalesce"
           FROM ( SELECT t."json"
                   FROM waybill.order_line_texts t
                  WHERE ((t.tenant_id = o.tenant_id) AND (t.order_id = o.id))
                  ORDER BY t.line_no) l) AS lines,
    c.customer,
    c.shipping_address,
    c.billing_address,
    ( SELECT encode(e.event_hash, 'hex'::text) AS encode
           FROM audit.events e
          WHERE ((e.tenant_id = o.tenant_id) AND (e.stream = ('order/'::text || o.id)) AND (e.version = o.version))) AS event_hash
   FROM (waybill.orders o
     CROSS JOIN LATERAL ( SELECT max((latest.value)::text) FILTER (WHERE ((latest.field)::text = 'customer'::text)) AS customer,
            max((latest.value)::text) FILTER (WHERE ((latest.field)::text = 'shippingAddress'::text)) AS shipping_address,
            max((latest.value)::text) FILTER (WHERE ((latest.field)::text = 'billingAddress'::text)) AS billing_address
           FROM ( SELECT DISTINCT ON (x.field) x.field,
                    x.value
                   FROM waybill.order_contacts x
                  WHERE ((x.tenant_id = o.tenant_id) AND (x.order_id = o.id))
                  ORDER BY x.field DESC, x.version DESC) latest) c);
GRANT SELECT ON waybill.order_details TO waybill_app;
COMMENT ON VIEW waybill.order_details IS 'An order as the API shows it. Lines and contacts are the texts of their JSON, as they can be written into an answer.';

CREATE VIEW waybill.order_line_texts WITH (security_invoker=true) AS
 SELECT tenant_id,
    order_id,
    line_no,
    concat('{"lineNo":', line_no, ',"sku":', to_json((sku)::text), ',"name":', to_json((name)::text), ',"quantity":', quantity, ',"unitPrice":', unit_price, ',"discount":', discount, ',"taxRatePpm":', tax_rate_ppm, ',"tax":', tax, ',"total":', total, ',"shippedQuantity":', shipped_quantity, '}') AS "json"
   FROM waybill.order_lines l;
GRANT SELECT ON waybill.order_line_texts TO waybill_app;
GRANT SELECT ON waybill.order_line_texts TO waybill_audit;
COMMENT ON VIEW waybill.order_line_texts IS 'A line as the text of its JSON, for events and answers alike.';

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

CREATE OR REPLACE FUNCTION audit.record_order()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "TimeZone" TO 'UTC'
AS $function$
DECLARE
  v_type text := 'updated';
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    v_type := 'created';
    INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
  ELSIF NEW.version = OLD.version THEN
    RETURN NULL;
  ELSIF NEW.status <> OLD.status THEN
    v_type := NEW.status;
    SELECT h.reason, h.rule_version INTO STRICT v_reason, v_rule_version FROM waybill.order_status_history h
    WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id ORDER BY h.seq DESC LIMIT 1;
  ELSE
    PERFORM waybill.require_actor(NEW.tenant_id);
  END IF;
  PERFORM audit.record('orders', 'order/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'order.' || v_type, v_reason, v_rule_version, waybill.order_snapshot(NEW), ',"lines":', 'customer.erased');
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_order() TO waybill_owner;
COMMENT ON FUNCTION audit.record_order() IS 'Made by audit.create_machine_recorder: appends an event for each version of an entity, and begins its history. Who acted is a user of the tenant: the history refers to him, and a change without a step asks.';

CREATE OR REPLACE FUNCTION waybill.check_order(p_new waybill.orders, p_old waybill.orders)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.check_order(waybill.orders,waybill.orders) IS 'Rules of several columns of an order; the row before is null for a new one.';

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

CREATE OR REPLACE FUNCTION waybill.guard_order()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.status IS DISTINCT FROM 'pending' OR NEW.version IS DISTINCT FROM 1 THEN
      PERFORM waybill.refuse_beginning('order', NEW.id, NEW.status, NEW.version, 'pending');
    END IF;
    -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
    IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
      NEW.updated_at := clock_timestamp();
    END IF;
    NEW.transition_reason := NULL;
    PERFORM waybill.check_order(NEW, NULL);
    RETURN NEW;
  END IF;

  v_reason := NEW.transition_reason;
  IF v_reason IS NOT NULL THEN
    NEW.transition_reason := NULL;
    IF waybill.is_blank(v_reason) THEN
      v_reason := NULL;
    END IF;
  END IF;
  IF NEW IS NOT DISTINCT FROM OLD THEN
    RETURN NEW;
  END IF;
  IF (NEW.tenant_id, NEW.id, NEW.number, NEW.channel, NEW.external_ref, NEW.customer_ref, NEW.currency, NEW.placed_at) IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.number, OLD.channel, OLD.external_ref, OLD.customer_ref, OLD.currency, OLD.placed_at) THEN
    RAISE EXCEPTION 'UPDATE on waybill.orders is refused: tenant_id, id, number, channel, external_ref, customer_ref, currency, placed_at never change' USING ERRCODE = 'WB002';
  END IF;
  IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
    PERFORM waybill.refuse_version('order', OLD.id, OLD.version, NEW.version);
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  PERFORM waybill.check_order(NEW, OLD);
  IF NEW.status <> OLD.status THEN
    v_rule_version := waybill.require_step('order', OLD.id, OLD.status, NEW.status, v_reason IS NOT NULL);
    -- Here and not after the row, because only here the reason is at hand: it is an argument that the row doesn't keep.
    INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, from_status, to_status, changed_by, changed_at, reason, request_id, rule_version)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), ''), v_rule_version
    FROM waybill.order_status_history h WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id;
  END IF;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_order() IS 'Made by waybill.attach_machine: what may be inserted and how it may change; version, time and history of a change.';

CREATE OR REPLACE FUNCTION waybill.guard_order_amounts()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.guard_order_amounts() IS 'AFTER INSERT OR UPDATE … FOR EACH ROW of orders: the amounts are the sums of the lines that the same statement wrote.';

CREATE OR REPLACE FUNCTION waybill.guard_order_contact()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.order_id::text THEN
    PERFORM waybill.refuse_order_part(NEW.tenant_id, NEW.order_id, 'contacts');
  END IF;
  NEW.digest := audit.pii_digest(NEW.salt, NEW.field, NEW.value);
  RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION waybill.guard_order_line()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.guard_order_line() IS 'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH ROW of lines. What was ordered is written by the commands alone, which name the order in waybill.written_order while they write it.';

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

CREATE OR REPLACE FUNCTION waybill.order_snapshot(o waybill.orders)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.order_snapshot(waybill.orders) TO waybill_audit;
COMMENT ON FUNCTION waybill.order_snapshot(waybill.orders) IS 'An order as its events keep it, as JSON text: all that it is, with digests in the place of personal data.';

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
$function$;
GRANT EXECUTE ON FUNCTION waybill.patch_order(bigint,uuid,integer,jsonb,bigint,bigint,bigint,bigint,bigint,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) TO waybill_app;
COMMENT ON FUNCTION waybill.patch_order(bigint,uuid,integer,jsonb,bigint,bigint,bigint,bigint,bigint,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) IS 'Changes what may still change of an order, as one version, and returns it. Null leaves a part as it is; contacts are parallel arrays.';

CREATE OR REPLACE FUNCTION waybill.place_order(p_tenant bigint, p_id uuid, p_number text, p_channel text, p_external_ref text, p_customer_ref text, p_currency text, p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_metadata jsonb, p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[], p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[], p_fields text[], p_values text[], p_salts bytea[], OUT status text, OUT version integer, OUT placed_at timestamp with time zone, OUT metadata jsonb, OUT event_hash text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.place_order(bigint,uuid,text,text,text,text,text,bigint,bigint,bigint,bigint,bigint,jsonb,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) TO waybill_app;
COMMENT ON FUNCTION waybill.place_order(bigint,uuid,text,text,text,text,text,bigint,bigint,bigint,bigint,bigint,jsonb,text[],text[],bigint[],bigint[],bigint[],bigint[],bigint[],bigint[],text[],text[],bytea[]) IS 'Places an order with its lines and contacts. Amounts in minor units; arrays are parallel, one entry a line or contact. Returns what the caller doesn''t know: state, version and time, the metadata as they are stored, the hash of its event.';

CREATE OR REPLACE FUNCTION waybill.refuse_order_line(p_line waybill.order_lines)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.refuse_order_line(waybill.order_lines) IS 'Refuses a line by the first rule of several columns that it breaks.';

CREATE OR REPLACE FUNCTION waybill.refuse_order_part(p_tenant bigint, p_order uuid, p_part text)
 RETURNS void
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_status text := (SELECT o.status FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order);
BEGIN
  IF v_status <> 'pending' THEN
    RAISE EXCEPTION 'the % of order % are fixed: it is %', p_part, p_order, v_status USING ERRCODE = 'WB015';
  END IF;
  RAISE EXCEPTION 'the % of order % are written together with the order', p_part, p_order
    USING ERRCODE = 'WB016', HINT = 'Use waybill.place_order and waybill.patch_order: they write an order and all of its parts together.';
END
$function$;
COMMENT ON FUNCTION waybill.refuse_order_part(bigint,uuid,text) IS 'Says why lines or contacts of an order cannot be written apart from it.';

CREATE OR REPLACE FUNCTION waybill.require_order_amounts(p_tenant bigint, p_order uuid)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.require_order_amounts(bigint,uuid) IS 'Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.';

CREATE OR REPLACE FUNCTION waybill.transition_order(p_tenant bigint, p_id uuid, p_to text, p_reason text, p_expected_version integer, p_metadata jsonb)
 RETURNS SETOF waybill.order_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION waybill.transition_order(bigint,uuid,text,text,integer,jsonb) TO waybill_app;
COMMENT ON FUNCTION waybill.transition_order(bigint,uuid,text,text,integer,jsonb) IS 'Moves an order to another state and returns it; no row when there is no such order. Metadata is replaced unless null.';
