CREATE TRIGGER orders_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.orders
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

CREATE TRIGGER order_lines_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.order_lines
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

CREATE TRIGGER order_contacts_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

CREATE TRIGGER order_status_history_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.order_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

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
  WHEN (NEW.version IS DISTINCT FROM OLD.version AND current_user <> 'waybill_audit')
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id');

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
  REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up();

CREATE TRIGGER order_contacts_00_append_only BEFORE UPDATE OR TRUNCATE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one');

CREATE TRIGGER order_status_history_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.order_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');

CREATE TRIGGER order_status_history_00_by_trigger BEFORE INSERT ON waybill.order_status_history FOR EACH ROW
  WHEN (pg_trigger_depth() < 1)
  EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of orders; change the order');

CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by audit.erase_customer, which leaves an event');

ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_append_only,
  ENABLE ALWAYS TRIGGER order_contacts_00_erasure;

ALTER TABLE waybill.order_status_history ENABLE ALWAYS TRIGGER order_status_history_00_append_only;

CREATE TRIGGER orders_50_event_erasure AFTER UPDATE ON waybill.orders FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version AND current_user = 'waybill_audit')
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id', 'customer.erased');
