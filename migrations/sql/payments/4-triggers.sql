CREATE TRIGGER payments_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.payments
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('money that moved is never forgotten');

CREATE TRIGGER payments_10_insert BEFORE INSERT ON waybill.payments
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('payment');

CREATE TRIGGER payments_10_identity BEFORE UPDATE ON waybill.payments FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.id, NEW.order_id, NEW.provider, NEW.currency, NEW.amount, NEW.tax, NEW.created_at) IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.order_id, OLD.provider, OLD.currency, OLD.amount, OLD.tax, OLD.created_at)
        OR (OLD.provider_ref IS NOT NULL AND NEW.provider_ref IS DISTINCT FROM OLD.provider_ref))
  EXECUTE FUNCTION waybill.refuse_change('tenant_id, id, order_id, provider, currency, amount, tax, created_at and a known provider_ref of a payment never change');

CREATE TRIGGER payments_20_update BEFORE UPDATE ON waybill.payments
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('payment', 'waybill.payment_status_history', 'payment_id');

CREATE TRIGGER payments_30_history AFTER INSERT ON waybill.payments
  FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.payment_status_history', 'payment_id');

CREATE TRIGGER payments_50_event_insert AFTER INSERT ON waybill.payments FOR EACH ROW EXECUTE FUNCTION audit.record_change('payment', 'waybill.payment_snapshot', 'waybill.payment_status_history', 'payment_id');

CREATE TRIGGER payments_50_event_update AFTER UPDATE ON waybill.payments FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version) EXECUTE FUNCTION audit.record_change('payment', 'waybill.payment_snapshot', 'waybill.payment_status_history', 'payment_id');

CREATE TRIGGER payment_status_history_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.payment_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');

CREATE TRIGGER payment_status_history_00_by_trigger BEFORE INSERT ON waybill.payment_status_history FOR EACH ROW
  WHEN (pg_trigger_depth() < 1)
  EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of payments; change the payment');

CREATE TRIGGER refunds_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.refunds
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('money that moved is never forgotten');

CREATE TRIGGER refunds_10_insert BEFORE INSERT ON waybill.refunds
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('refund');

CREATE TRIGGER refunds_10_identity BEFORE UPDATE ON waybill.refunds FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.id, NEW.payment_id, NEW.amount, NEW.tax, NEW.reason, NEW.created_at) IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.payment_id, OLD.amount, OLD.tax, OLD.reason, OLD.created_at)
        OR (OLD.provider_ref IS NOT NULL AND NEW.provider_ref IS DISTINCT FROM OLD.provider_ref))
  EXECUTE FUNCTION waybill.refuse_change('tenant_id, id, payment_id, amount, tax, reason, created_at and a known provider_ref of a refund never change');

CREATE TRIGGER refunds_20_update BEFORE UPDATE ON waybill.refunds
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('refund', 'waybill.refund_status_history', 'refund_id');

CREATE TRIGGER refunds_30_history AFTER INSERT ON waybill.refunds
  FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.refund_status_history', 'refund_id');

CREATE TRIGGER refunds_50_event_insert AFTER INSERT ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION audit.record_change('refund', 'waybill.refund_snapshot', 'waybill.refund_status_history', 'refund_id');

CREATE TRIGGER refunds_50_event_update AFTER UPDATE ON waybill.refunds FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version) EXECUTE FUNCTION audit.record_change('refund', 'waybill.refund_snapshot', 'waybill.refund_status_history', 'refund_id');

CREATE TRIGGER refund_status_history_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.refund_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');

CREATE TRIGGER refund_status_history_00_by_trigger BEFORE INSERT ON waybill.refund_status_history FOR EACH ROW
  WHEN (pg_trigger_depth() < 1)
  EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of refunds; change the refund');

CREATE TRIGGER payment_attempts_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.payment_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('what was asked of a provider stays on record');

CREATE TRIGGER payment_attempts_10_identity BEFORE UPDATE ON waybill.payment_attempts FOR EACH ROW
  WHEN (OLD.settled_at IS NOT NULL
        OR (NEW.tenant_id, NEW.id, NEW.payment_id, NEW.refund_id, NEW.operation, NEW.provider_key, NEW.payment_method,
            NEW.amount, NEW.tax, NEW.started_at)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.payment_id, OLD.refund_id, OLD.operation, OLD.provider_key, OLD.payment_method,
            OLD.amount, OLD.tax, OLD.started_at))
  EXECUTE FUNCTION waybill.refuse_change('an attempt keeps what it asked for, and its result once there is one');

CREATE TRIGGER payment_webhook_events_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.payment_webhook_events
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came');

CREATE TRIGGER stray_events_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_inbox.stray_events
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came');
