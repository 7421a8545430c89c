-- What the area payments makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE SCHEMA payment_inbox AUTHORIZATION waybill_owner;
GRANT USAGE ON SCHEMA payment_inbox TO waybill_app;

CREATE DOMAIN waybill.attempt_status AS text COLLATE "C";
ALTER DOMAIN waybill.attempt_status ADD CONSTRAINT attempt_status_check CHECK ((VALUE = ANY (ARRAY['processing'::text, 'succeeded'::text, 'refused'::text, 'needs_reconciliation'::text])));

CREATE DOMAIN waybill.decline_code AS text COLLATE "C";
ALTER DOMAIN waybill.decline_code ADD CONSTRAINT decline_code_length CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 100)));

CREATE DOMAIN waybill.event_outcome AS text COLLATE "C";
ALTER DOMAIN waybill.event_outcome ADD CONSTRAINT event_outcome_check CHECK ((VALUE = ANY (ARRAY['applied'::text, 'nothing-to-do'::text, 'conflict'::text, 'unknown'::text])));

CREATE DOMAIN waybill.fact_subject AS text COLLATE "C";
ALTER DOMAIN waybill.fact_subject ADD CONSTRAINT fact_subject_check CHECK ((VALUE = ANY (ARRAY['payment'::text, 'refund'::text])));

CREATE DOMAIN waybill.provider_fact AS text COLLATE "C";
ALTER DOMAIN waybill.provider_fact ADD CONSTRAINT provider_fact_check CHECK ((VALUE = ANY (ARRAY['authorized'::text, 'declined'::text, 'captured'::text, 'voided'::text, 'succeeded'::text, 'failed'::text])));

CREATE DOMAIN waybill.provider_key AS text COLLATE "C";
ALTER DOMAIN waybill.provider_key ADD CONSTRAINT provider_key_format CHECK (((length(VALUE) = 64) AND (VALUE ~ '^[0-9a-f]+$'::text)));

CREATE DOMAIN waybill.provider_name AS text COLLATE "C";
ALTER DOMAIN waybill.provider_name ADD CONSTRAINT provider_name_format CHECK (((length(VALUE) <= 32) AND (VALUE ~ '^[a-z][a-z0-9_-]*$'::text)));

CREATE DOMAIN waybill.provider_operation AS text COLLATE "C";
ALTER DOMAIN waybill.provider_operation ADD CONSTRAINT provider_operation_check CHECK ((VALUE = ANY (ARRAY['authorize'::text, 'capture'::text, 'void'::text, 'refund'::text])));

CREATE DOMAIN waybill.provider_text AS text COLLATE "C";
ALTER DOMAIN waybill.provider_text ADD CONSTRAINT provider_text_length CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 255)));
COMMENT ON DOMAIN waybill.provider_text IS 'What a provider calls something of its own: a payment, a method, an event.';

CREATE DOMAIN waybill.refund_cause AS text COLLATE "C";
ALTER DOMAIN waybill.refund_cause ADD CONSTRAINT refund_cause_check CHECK ((VALUE = ANY (ARRAY['request'::text, 'provider'::text, 'dispute'::text])));
COMMENT ON DOMAIN waybill.refund_cause IS 'Who gave the money back: a request of ours, somebody at the provider without us, or a bank for a customer who disputes the payment.';

CREATE TABLE payment_inbox.stray_events (
  provider waybill.provider_name NOT NULL,
  event waybill.provider_text NOT NULL,
  type waybill.provider_text NOT NULL,
  digest waybill.bytes32 NOT NULL,
  received_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE payment_inbox.stray_events ADD CONSTRAINT stray_events_pkey PRIMARY KEY (provider, event);
CREATE TRIGGER stray_events_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON payment_inbox.stray_events FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came');
GRANT INSERT ON payment_inbox.stray_events TO waybill_app;
GRANT SELECT ON payment_inbox.stray_events TO waybill_app;
COMMENT ON TABLE payment_inbox.stray_events IS 'Signed events that name no tenant of ours, such as of payments that somebody made at the provider by hand. Apart from what belongs to tenants.';

INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('payment', 'waybill.payments', 'processing');
INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('refund', 'waybill.refunds', 'processing');

CREATE TRIGGER orders_25_payment_holding_order BEFORE UPDATE ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.ask_payment_holding_order();
CREATE TRIGGER orders_25_total BEFORE UPDATE OF total ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.keep_total_while_paying();

CREATE TABLE waybill.payment_attempts (
  tenant_id bigint NOT NULL,
  id uuid NOT NULL,
  payment_id uuid NOT NULL,
  refund_id uuid,
  operation waybill.provider_operation NOT NULL,
  status waybill.attempt_status DEFAULT 'processing'::text NOT NULL,
  provider_key waybill.provider_key NOT NULL,
  payment_method waybill.provider_text,
  amount waybill.minor_units NOT NULL,
  tax waybill.minor_units NOT NULL,
  decline_code waybill.decline_code,
  started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  settled_at timestamp with time zone
);
ALTER TABLE waybill.payment_attempts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_amount_range CHECK ((((amount)::bigint >= 1) AND ((tax)::bigint <= (amount)::bigint)));
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_method_given CHECK ((((operation)::text = 'authorize'::text) = (payment_method IS NOT NULL)));
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id);
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_provider_key_key UNIQUE (tenant_id, provider_key);
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds(tenant_id, id);
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_refund_given CHECK ((((operation)::text = 'refund'::text) = (refund_id IS NOT NULL)));
ALTER TABLE waybill.payment_attempts ADD CONSTRAINT payment_attempts_settled CHECK ((((status)::text = ANY (ARRAY['succeeded'::text, 'refused'::text])) = (settled_at IS NOT NULL)));
CREATE UNIQUE INDEX payment_attempts_pending_key ON waybill.payment_attempts USING btree (tenant_id, payment_id) WHERE ((refund_id IS NULL) AND ((status)::text = ANY (ARRAY['processing'::text, 'needs_reconciliation'::text])));
CREATE INDEX payment_attempts_refund_idx ON waybill.payment_attempts USING btree (tenant_id, refund_id) WHERE (refund_id IS NOT NULL);
CREATE POLICY payment_attempts_tenant ON waybill.payment_attempts FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER payment_attempts_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_attempts FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER payment_attempts_00_refused BEFORE DELETE OR TRUNCATE ON waybill.payment_attempts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('what was asked of a provider stays on record');
CREATE TRIGGER payment_attempts_10_identity BEFORE UPDATE ON waybill.payment_attempts FOR EACH ROW WHEN (((old.settled_at IS NOT NULL) OR ((((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.payment_id IS DISTINCT FROM old.payment_id)) OR (new.refund_id IS DISTINCT FROM old.refund_id)) OR ((new.operation)::text IS DISTINCT FROM (old.operation)::text)) OR ((new.provider_key)::text IS DISTINCT FROM (old.provider_key)::text)) OR ((new.payment_method)::text IS DISTINCT FROM (old.payment_method)::text)) OR ((new.amount)::bigint IS DISTINCT FROM (old.amount)::bigint)) OR ((new.tax)::bigint IS DISTINCT FROM (old.tax)::bigint)) OR (new.started_at IS DISTINCT FROM old.started_at)))) EXECUTE FUNCTION waybill.refuse_change('an attempt keeps what it asked for, and its result once there is one');
GRANT SELECT ON waybill.payment_attempts TO waybill_app;
COMMENT ON CONSTRAINT payment_attempts_provider_key_key on waybill.payment_attempts IS 'Outlives the client''s key: the provider may still know it when that is forgotten here, and would answer for the old request.';
COMMENT ON TABLE waybill.payment_attempts IS 'One row for each thing that is asked of a provider: enough to ask again under the same key, without the client.';

CREATE TABLE waybill.payment_conflicts (
  tenant_id bigint NOT NULL,
  provider waybill.provider_name NOT NULL,
  event waybill.provider_text NOT NULL,
  payment_id uuid NOT NULL,
  problem waybill.reason NOT NULL,
  refund_id uuid,
  subject waybill.fact_subject,
  fact waybill.provider_fact,
  reference waybill.provider_text,
  amount bigint,
  decline_code waybill.decline_code,
  cause waybill.refund_cause,
  noticed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  resolved_at timestamp with time zone,
  resolved_by uuid,
  resolution waybill.reason
);
ALTER TABLE waybill.payment_conflicts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.payment_conflicts ADD CONSTRAINT payment_conflicts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id);
ALTER TABLE waybill.payment_conflicts ADD CONSTRAINT payment_conflicts_pkey PRIMARY KEY (tenant_id, provider, event);
ALTER TABLE waybill.payment_conflicts ADD CONSTRAINT payment_conflicts_resolved CHECK ((((resolved_at IS NULL) = (resolution IS NULL)) AND ((resolved_at IS NULL) = (resolved_by IS NULL))));
ALTER TABLE waybill.payment_conflicts ADD CONSTRAINT payment_conflicts_user_fkey FOREIGN KEY (tenant_id, resolved_by) REFERENCES waybill.users(tenant_id, id);
CREATE INDEX payment_conflicts_open_idx ON waybill.payment_conflicts USING btree (tenant_id, payment_id, noticed_at) WHERE (resolved_at IS NULL);
CREATE POLICY payment_conflicts_tenant ON waybill.payment_conflicts FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER payment_conflicts_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_conflicts FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER payment_conflicts_00_refused BEFORE DELETE OR TRUNCATE ON waybill.payment_conflicts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('what a provider said stays on record');
CREATE TRIGGER payment_conflicts_10_fixed BEFORE UPDATE ON waybill.payment_conflicts FOR EACH ROW WHEN (((old.resolved_at IS NOT NULL) OR (((((((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR ((new.provider)::text IS DISTINCT FROM (old.provider)::text)) OR ((new.event)::text IS DISTINCT FROM (old.event)::text)) OR (new.payment_id IS DISTINCT FROM old.payment_id)) OR ((new.problem)::text IS DISTINCT FROM (old.problem)::text)) OR (new.refund_id IS DISTINCT FROM old.refund_id)) OR ((new.subject)::text IS DISTINCT FROM (old.subject)::text)) OR ((new.fact)::text IS DISTINCT FROM (old.fact)::text)) OR ((new.reference)::text IS DISTINCT FROM (old.reference)::text)) OR (new.amount IS DISTINCT FROM old.amount)) OR ((new.decline_code)::text IS DISTINCT FROM (old.decline_code)::text)) OR ((new.cause)::text IS DISTINCT FROM (old.cause)::text)) OR (new.noticed_at IS DISTINCT FROM old.noticed_at)))) EXECUTE FUNCTION waybill.refuse_change('a conflict keeps what it is about, and its resolution once there is one');
GRANT SELECT ON waybill.payment_conflicts TO waybill_app;
COMMENT ON TABLE waybill.payment_conflicts IS 'What a provider says of a payment and what can''t be so here: for a person to look at. subject and fact are null where the event could not be read.';

CREATE TABLE waybill.payment_status_history (
  tenant_id bigint NOT NULL,
  payment_id uuid NOT NULL,
  seq integer NOT NULL,
  from_status text COLLATE "C",
  to_status text COLLATE "C" NOT NULL,
  changed_by uuid NOT NULL,
  changed_at timestamp with time zone NOT NULL,
  reason waybill.reason,
  request_id text,
  rule_version integer
);
ALTER TABLE waybill.payment_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.payment_status_history ADD CONSTRAINT payment_status_history_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id);
ALTER TABLE waybill.payment_status_history ADD CONSTRAINT payment_status_history_pkey PRIMARY KEY (tenant_id, payment_id, seq);
ALTER TABLE waybill.payment_status_history ADD CONSTRAINT payment_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id);
CREATE POLICY payment_status_history_tenant ON waybill.payment_status_history FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER payment_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER payment_status_history_00_refused BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.payment_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');
CREATE TRIGGER payment_status_history_10_guard BEFORE INSERT ON waybill.payment_status_history FOR EACH ROW EXECUTE FUNCTION waybill.guard_history();
ALTER TABLE waybill.payment_status_history ENABLE ALWAYS TRIGGER payment_status_history_00_refused;
GRANT SELECT ON waybill.payment_status_history TO waybill_app;
GRANT INSERT ON waybill.payment_status_history TO waybill_audit;
GRANT SELECT ON waybill.payment_status_history TO waybill_audit;

CREATE TABLE waybill.payment_webhook_events (
  tenant_id bigint NOT NULL,
  provider waybill.provider_name NOT NULL,
  event waybill.provider_text NOT NULL,
  type waybill.provider_text NOT NULL,
  payment_id uuid,
  outcome waybill.event_outcome NOT NULL,
  digest waybill.bytes32 NOT NULL,
  received_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE waybill.payment_webhook_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.payment_webhook_events ADD CONSTRAINT payment_webhook_events_pkey PRIMARY KEY (tenant_id, provider, event);
CREATE POLICY payment_webhook_events_tenant ON waybill.payment_webhook_events FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER payment_webhook_events_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_webhook_events FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER payment_webhook_events_00_refused BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.payment_webhook_events FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came');
ALTER TABLE waybill.payment_webhook_events ENABLE ALWAYS TRIGGER payment_webhook_events_00_refused;
GRANT SELECT ON waybill.payment_webhook_events TO waybill_app;
COMMENT ON COLUMN waybill.payment_webhook_events.digest IS 'SHA-256 of the body. The body itself may hold personal data and can be read at the provider by its event id.';

CREATE TABLE waybill.payments (
  tenant_id bigint NOT NULL,
  id uuid NOT NULL,
  order_id uuid NOT NULL,
  provider waybill.provider_name NOT NULL,
  provider_ref waybill.provider_text,
  status text COLLATE "C" DEFAULT 'processing'::text NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  currency waybill.currency_code NOT NULL,
  amount waybill.minor_units NOT NULL,
  tax waybill.minor_units NOT NULL,
  authorized waybill.minor_units DEFAULT 0 NOT NULL,
  captured waybill.minor_units DEFAULT 0 NOT NULL,
  captured_tax waybill.minor_units DEFAULT 0 NOT NULL,
  refunding waybill.minor_units DEFAULT 0 NOT NULL,
  refunding_tax waybill.minor_units DEFAULT 0 NOT NULL,
  refunded waybill.minor_units DEFAULT 0 NOT NULL,
  refunded_tax waybill.minor_units DEFAULT 0 NOT NULL,
  decline_code waybill.decline_code,
  conflicts integer DEFAULT 0 NOT NULL,
  created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  transition_reason text
);
ALTER TABLE waybill.payments ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.payments ADD CONSTRAINT payments_amount_range CHECK ((((amount)::bigint >= 1) AND ((tax)::bigint <= (amount)::bigint)));
ALTER TABLE waybill.payments ADD CONSTRAINT payments_authorized_within_amount CHECK (((authorized)::bigint <= (amount)::bigint));
ALTER TABLE waybill.payments ADD CONSTRAINT payments_captured_within_authorized CHECK (((((captured)::bigint >= 0) AND ((captured)::bigint <= (authorized)::bigint)) AND (((captured_tax)::bigint >= 0) AND ((captured_tax)::bigint <= (tax)::bigint)) AND ((((captured)::bigint - (captured_tax)::bigint) >= 0) AND (((captured)::bigint - (captured_tax)::bigint) <= ((amount)::bigint - (tax)::bigint)))));
ALTER TABLE waybill.payments ADD CONSTRAINT payments_conflicts_counted CHECK ((conflicts >= 0));
ALTER TABLE waybill.payments ADD CONSTRAINT payments_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id);
ALTER TABLE waybill.payments ADD CONSTRAINT payments_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE waybill.payments ADD CONSTRAINT payments_provider_ref_key UNIQUE (tenant_id, provider, provider_ref);
ALTER TABLE waybill.payments ADD CONSTRAINT payments_refunded_within_captured CHECK ((((refunded)::bigint >= 0) AND ((refunding)::bigint >= 0) AND (((refunded)::bigint + (refunding)::bigint) <= (captured)::bigint) AND ((refunded_tax)::bigint >= 0) AND ((refunding_tax)::bigint >= 0) AND (((refunded_tax)::bigint + (refunding_tax)::bigint) <= (captured_tax)::bigint) AND ((refunded)::bigint >= (refunded_tax)::bigint) AND ((refunding)::bigint >= (refunding_tax)::bigint) AND ((((refunded)::bigint - (refunded_tax)::bigint) + ((refunding)::bigint - (refunding_tax)::bigint)) <= ((captured)::bigint - (captured_tax)::bigint))));
ALTER TABLE waybill.payments ADD CONSTRAINT payments_status_check CHECK ((status = ANY (ARRAY['processing'::text, 'authorized'::text, 'declined'::text, 'capturing'::text, 'captured'::text, 'voiding'::text, 'voided'::text, 'refunded'::text, 'needs_reconciliation'::text])));
CREATE UNIQUE INDEX payments_live_key ON waybill.payments USING btree (tenant_id, order_id) WHERE (status <> ALL (ARRAY['declined'::text, 'voided'::text, 'refunded'::text]));
CREATE POLICY payments_tenant ON waybill.payments FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER payments_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payments FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER payments_00_refused BEFORE DELETE OR TRUNCATE ON waybill.payments FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('money that moved is never forgotten');
CREATE TRIGGER payments_20_guard BEFORE INSERT OR UPDATE ON waybill.payments FOR EACH ROW EXECUTE FUNCTION waybill.guard_payment();
CREATE TRIGGER payments_50_record_insert AFTER INSERT ON waybill.payments FOR EACH ROW EXECUTE FUNCTION audit.record_payment();
CREATE TRIGGER payments_50_record_update AFTER UPDATE ON waybill.payments FOR EACH ROW EXECUTE FUNCTION audit.record_payment();
GRANT SELECT ON waybill.payments TO waybill_app;
GRANT SELECT ON waybill.payments TO waybill_audit;
COMMENT ON COLUMN waybill.payments.conflicts IS 'How many rows of payment_conflicts are open. Like a live payment, one with conflicts keeps its order from being canceled.';
COMMENT ON COLUMN waybill.payments.refunding IS 'Promised to refunds that are under way; what is left to refund is captured - refunded - refunding.';
COMMENT ON INDEX waybill.payments_live_key IS 'At most one live payment an order, whatever becomes of idempotency keys. Every state that holds money or may yet is live.';

CREATE TABLE waybill.refund_status_history (
  tenant_id bigint NOT NULL,
  refund_id uuid NOT NULL,
  seq integer NOT NULL,
  from_status text COLLATE "C",
  to_status text COLLATE "C" NOT NULL,
  changed_by uuid NOT NULL,
  changed_at timestamp with time zone NOT NULL,
  reason waybill.reason,
  request_id text,
  rule_version integer
);
ALTER TABLE waybill.refund_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.refund_status_history ADD CONSTRAINT refund_status_history_pkey PRIMARY KEY (tenant_id, refund_id, seq);
ALTER TABLE waybill.refund_status_history ADD CONSTRAINT refund_status_history_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds(tenant_id, id);
ALTER TABLE waybill.refund_status_history ADD CONSTRAINT refund_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id);
CREATE POLICY refund_status_history_tenant ON waybill.refund_status_history FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER refund_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.refund_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER refund_status_history_00_refused BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.refund_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only');
CREATE TRIGGER refund_status_history_10_guard BEFORE INSERT ON waybill.refund_status_history FOR EACH ROW EXECUTE FUNCTION waybill.guard_history();
ALTER TABLE waybill.refund_status_history ENABLE ALWAYS TRIGGER refund_status_history_00_refused;
GRANT SELECT ON waybill.refund_status_history TO waybill_app;
GRANT INSERT ON waybill.refund_status_history TO waybill_audit;
GRANT SELECT ON waybill.refund_status_history TO waybill_audit;

CREATE TABLE waybill.refunds (
  tenant_id bigint NOT NULL,
  id uuid NOT NULL,
  payment_id uuid NOT NULL,
  status text COLLATE "C" DEFAULT 'processing'::text NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  amount waybill.minor_units NOT NULL,
  tax waybill.minor_units NOT NULL,
  reason waybill.reason,
  cause waybill.refund_cause DEFAULT 'request'::text NOT NULL,
  provider_ref waybill.provider_text,
  decline_code waybill.decline_code,
  created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  updated_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
  transition_reason text
);
ALTER TABLE waybill.refunds ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_amount_range CHECK ((((amount)::bigint >= 1) AND ((tax)::bigint <= (amount)::bigint)));
ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id);
ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_status_check CHECK ((status = ANY (ARRAY['processing'::text, 'succeeded'::text, 'failed'::text, 'needs_reconciliation'::text])));
CREATE INDEX refunds_payment_idx ON waybill.refunds USING btree (tenant_id, payment_id, created_at, id);
CREATE UNIQUE INDEX refunds_provider_ref_key ON waybill.refunds USING btree (tenant_id, payment_id, provider_ref);
CREATE POLICY refunds_tenant ON waybill.refunds FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER refunds_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.refunds FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER refunds_00_refused BEFORE DELETE OR TRUNCATE ON waybill.refunds FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('money that moved is never forgotten');
CREATE TRIGGER refunds_20_guard BEFORE INSERT OR UPDATE ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION waybill.guard_refund();
CREATE TRIGGER refunds_50_record_insert AFTER INSERT ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION audit.record_refund();
CREATE TRIGGER refunds_50_record_update AFTER UPDATE ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION audit.record_refund();
GRANT SELECT ON waybill.refunds TO waybill_app;
GRANT SELECT ON waybill.refunds TO waybill_audit;

INSERT INTO waybill.step_rules (machine, rule, to_states) VALUES ('order', 'waybill.payment_holding_order', '{canceled}');

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'authorized', 'captured', '{system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'authorized', 'capturing', '{operator,admin}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'authorized', 'voided', '{system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'authorized', 'voiding', '{operator,admin}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'captured', 'refunded', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'capturing', 'authorized', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'capturing', 'captured', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'capturing', 'needs_reconciliation', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'declined', 'authorized', '{system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'declined', 'captured', '{system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'needs_reconciliation', 'authorized', '{admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'needs_reconciliation', 'captured', '{admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'needs_reconciliation', 'declined', '{admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'needs_reconciliation', 'voided', '{admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'processing', 'authorized', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'processing', 'declined', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'processing', 'needs_reconciliation', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'refunded', 'captured', '{system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'voiding', 'authorized', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'voiding', 'needs_reconciliation', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('payment', 'voiding', 'voided', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('refund', 'needs_reconciliation', 'failed', '{admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('refund', 'needs_reconciliation', 'succeeded', '{admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('refund', 'processing', 'failed', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('refund', 'processing', 'needs_reconciliation', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('refund', 'processing', 'succeeded', '{operator,admin,system}', 'false', '{}');
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards) VALUES ('refund', 'succeeded', 'failed', '{system}', 'false', '{}');

CREATE VIEW waybill.payment_details WITH (security_invoker=true) AS
 SELECT tenant_id,
    id,
    order_id,
    provider,
    provider_ref,
    status,
    version,
    currency,
    amount,
    tax,
    authorized,
    captured,
    captured_tax,
    refunding,
    refunding_tax,
    refunded,
    refunded_tax,
    decline_code,
    created_at,
    updated_at,
    ( SELECT COALESCE(jsonb_agg(((waybill.refund_snapshot(r.*))::jsonb || jsonb_build_object('eventHash', ( SELECT encode(e.event_hash, 'hex'::text) AS encode
                   FROM audit.events e
                  WHERE ((e.tenant_id = r.tenant_id) AND (e.stream = ('refund/'::text || r.id)) AND (e.version = r.version))))) ORDER BY r.created_at, r.id), '[]'::jsonb) AS "coalesce"
           FROM waybill.refunds r
          WHERE ((r.tenant_id = p.tenant_id) AND (r.payment_id = p.id))) AS refunds,
        CASE
            WHEN (conflicts = 0) THEN '[]'::jsonb
            ELSE ( SELECT jsonb_agg(jsonb_build_object('provider', c.provider, 'event', c.event, 'subject', c.subject, 'fact', c.fact, 'reference', c.reference, 'amount', c.amount, 'problem', c.problem, 'noticedAt', to_char((c.noticed_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text)) ORDER BY c.noticed_at, c.event) AS jsonb_agg
               FROM waybill.payment_conflicts c
              WHERE ((c.tenant_id = p.tenant_id) AND (c.payment_id = p.id) AND (c.resolved_at IS NULL)))
        END AS conflicts,
    ( SELECT encode(e.event_hash, 'hex'::text) AS encode
           FROM audit.events e
          WHERE ((e.tenant_id = p.tenant_id) AND (e.stream = ('payment/'::text || p.id)) AND (e.version = p.version))) AS event_hash
   FROM waybill.payments p;
GRANT SELECT ON waybill.payment_details TO waybill_app;
COMMENT ON VIEW waybill.payment_details IS 'A payment with its refunds and open conflicts, as the API shows it.';

CREATE OR REPLACE FUNCTION audit.record_payment()
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
    INSERT INTO waybill.payment_status_history (tenant_id, payment_id, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
  ELSIF NEW.version = OLD.version THEN
    RETURN NULL;
  ELSIF NEW.status <> OLD.status THEN
    v_type := NEW.status;
    SELECT h.reason, h.rule_version INTO STRICT v_reason, v_rule_version FROM waybill.payment_status_history h
    WHERE h.tenant_id = NEW.tenant_id AND h.payment_id = NEW.id ORDER BY h.seq DESC LIMIT 1;
  ELSE
    PERFORM waybill.require_actor(NEW.tenant_id);
  END IF;
  PERFORM audit.record('payments', 'payment/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'payment.' || v_type, v_reason, v_rule_version, waybill.payment_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_payment() TO waybill_owner;
COMMENT ON FUNCTION audit.record_payment() IS 'Made by audit.create_machine_recorder: appends an event for each version of an entity, and begins its history. Who acted is a user of the tenant: the history refers to him, and a change without a step asks.';

CREATE OR REPLACE FUNCTION audit.record_refund()
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
    INSERT INTO waybill.refund_status_history (tenant_id, refund_id, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
  ELSIF NEW.version = OLD.version THEN
    RETURN NULL;
  ELSIF NEW.status <> OLD.status THEN
    v_type := NEW.status;
    SELECT h.reason, h.rule_version INTO STRICT v_reason, v_rule_version FROM waybill.refund_status_history h
    WHERE h.tenant_id = NEW.tenant_id AND h.refund_id = NEW.id ORDER BY h.seq DESC LIMIT 1;
  ELSE
    PERFORM waybill.require_actor(NEW.tenant_id);
  END IF;
  PERFORM audit.record('refunds', 'refund/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'refund.' || v_type, v_reason, v_rule_version, waybill.refund_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_refund() TO waybill_owner;
COMMENT ON FUNCTION audit.record_refund() IS 'Made by audit.create_machine_recorder: appends an event for each version of an entity, and begins its history. Who acted is a user of the tenant: the history refers to him, and a change without a step asks.';

CREATE OR REPLACE FUNCTION payment_inbox.tenant_of(p_provider text, p_payment_ref text)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_before text := current_setting('waybill.tenant_id', true);
  v_tenant bigint;
  v_found bigint[] := '{}';
BEGIN
  -- Tenant by tenant, as the policies want it: a look-up by index for each, for the few events that don't say whose they are.
  FOR v_tenant IN SELECT t.id FROM waybill.tenant_ids() AS t(id) LOOP
    PERFORM set_config('waybill.tenant_id', v_tenant::text, true);
    IF EXISTS (SELECT FROM waybill.payments p
               WHERE p.tenant_id = v_tenant AND p.provider = p_provider AND p.provider_ref = p_payment_ref) THEN
      v_found := v_found || v_tenant;
    END IF;
  END LOOP;
  PERFORM set_config('waybill.tenant_id', coalesce(v_before, ''), true);
  RETURN CASE cardinality(v_found) WHEN 1 THEN v_found[1] END;
END
$function$;
GRANT EXECUTE ON FUNCTION payment_inbox.tenant_of(text,text) TO waybill_app;
COMMENT ON FUNCTION payment_inbox.tenant_of(text,text) IS 'The tenant whose payment a provider calls by this name; null when there is none, or more than one.';

CREATE OR REPLACE FUNCTION waybill.apply_payment_fact(p_tenant bigint, p_payment uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_pending waybill.payment_attempts;
  v_operation text := CASE p_fact WHEN 'captured' THEN 'capture' WHEN 'voided' THEN 'void' ELSE 'authorize' END;
  v_is_mine boolean;
BEGIN
  SELECT a.* INTO v_pending FROM waybill.payment_attempts a
  WHERE a.tenant_id = p_tenant AND a.payment_id = p_payment AND a.refund_id IS NULL
    AND a.status IN ('processing', 'needs_reconciliation');
  v_is_mine := FOUND AND v_pending.operation = v_operation;

  IF p_fact = 'captured' AND (v_payment.status = 'voided'
                              OR v_payment.status IN ('captured', 'refunded') AND p_amount <> v_payment.captured) THEN
    RAISE EXCEPTION 'the provider took % of a payment that is %, with % captured', coalesce(p_amount::text, 'money'), v_payment.status, v_payment.captured
      USING ERRCODE = 'WB034';
  END IF;
  -- After a decline, only what the provider holds or took all the same is news: by another card, or by hand.
  IF v_payment.status = 'declined' AND p_fact IN ('authorized', 'captured') THEN
    UPDATE waybill.payments p
    SET status = p_fact, authorized = coalesce(p_amount, p.amount), provider_ref = coalesce(p.provider_ref, p_provider_ref),
        captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.amount) ELSE 0 END,
        captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.amount), p.amount, p.tax) ELSE 0 END
    WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN 'applied';
  END IF;
  -- Facts come late and in any order. What a payment has left behind says nothing new of it.
  IF v_payment.status IN ('declined', 'captured', 'voided', 'refunded')
     OR (p_fact IN ('authorized', 'declined') AND NOT v_is_mine) THEN
    RETURN 'nothing-to-do';
  END IF;
  IF v_is_mine THEN
    PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE p_fact WHEN 'declined' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, p_amount, p_decline_code);
    RETURN 'applied';
  END IF;
  -- Captured or let go, but not by what is pending here: a hold was there in any case, and a rival step came too late.
  IF v_pending.id IS NOT NULL THEN
    PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE v_pending.operation WHEN 'authorize' THEN 'succeeded' ELSE 'refused' END,
                                           p_provider_ref, NULL, CASE WHEN v_pending.operation <> 'authorize' THEN 'already_' || p_fact END);
  END IF;
  UPDATE waybill.payments p
  SET status = p_fact,
      captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.authorized) ELSE p.captured END,
      captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.authorized), p.amount, p.tax) ELSE p.captured_tax END,
      provider_ref = coalesce(p.provider_ref, p_provider_ref)
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN 'applied';
END
$function$;
COMMENT ON FUNCTION waybill.apply_payment_fact(bigint,uuid,text,text,bigint,text) IS 'Brings a payment to what its provider says happened: authorized, declined, captured or voided. Returns applied or nothing-to-do; refuses what can''t be.';

CREATE OR REPLACE FUNCTION waybill.apply_refund_fact(p_tenant bigint, p_payment uuid, p_refund uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text, p_cause text, p_new_refund uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_refund waybill.refunds;
  v_attempt uuid;
BEGIN
  SELECT r.* INTO v_refund FROM waybill.refunds r
  WHERE r.tenant_id = p_tenant AND r.payment_id = p_payment
    AND CASE WHEN p_refund IS NULL THEN r.provider_ref = p_provider_ref ELSE r.id = p_refund END
  FOR NO KEY UPDATE;
  IF v_refund.id IS NULL THEN
    IF p_fact = 'failed' THEN
      RETURN 'nothing-to-do';
    END IF;
    PERFORM waybill.book_foreign_refund(v_payment, p_new_refund, p_provider_ref, p_amount, p_decline_code, p_cause);
    RETURN 'applied';
  END IF;
  IF p_amount <> v_refund.amount THEN
    RAISE EXCEPTION 'the provider says % of refund %, which is of %', p_amount, v_refund.id, v_refund.amount USING ERRCODE = 'WB034';
  END IF;
  IF v_refund.status IN ('processing', 'needs_reconciliation') THEN
    SELECT a.id INTO STRICT v_attempt FROM waybill.payment_attempts a
    WHERE a.tenant_id = p_tenant AND a.refund_id = v_refund.id AND a.settled_at IS NULL;
    PERFORM waybill.settle_payment_attempt(p_tenant, v_attempt, CASE p_fact WHEN 'failed' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, NULL, p_decline_code);
    RETURN 'applied';
  END IF;
  IF v_refund.status <> 'succeeded' OR p_fact <> 'failed' THEN
    RETURN 'nothing-to-do';
  END IF;
  -- A bank can send a refund back days later, and a dispute can be won. The payment holds the money again, and is live again
  -- unless another one is.
  WITH refund AS (
    UPDATE waybill.refunds r SET status = 'failed', decline_code = p_decline_code WHERE r.tenant_id = p_tenant AND r.id = v_refund.id
  )
  UPDATE waybill.payments p
  SET refunded = p.refunded - v_refund.amount, refunded_tax = p.refunded_tax - v_refund.tax,
      status = CASE WHEN p.status = 'refunded' AND NOT EXISTS (
        SELECT FROM waybill.payments o WHERE o.tenant_id = p_tenant AND o.order_id = p.order_id AND o.id <> p.id
          AND o.status NOT IN ('declined', 'voided', 'refunded')) THEN 'captured' ELSE p.status END
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN 'applied';
END
$function$;
COMMENT ON FUNCTION waybill.apply_refund_fact(bigint,uuid,uuid,text,text,bigint,text,text,uuid) IS 'Brings a refund to what its provider says happened: succeeded or failed, also long after it succeeded. p_refund null is one that is known by the provider''s name of it, or not at all: it is booked then, as p_new_refund. Returns applied or nothing-to-do; refuses what can''t be.';

CREATE OR REPLACE FUNCTION waybill.ask_payment_holding_order()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_refusal jsonb;
BEGIN
  IF NEW.status <> OLD.status AND NEW.status IN ('canceled') THEN
    v_refusal := waybill.payment_holding_order(NEW.tenant_id, NEW.id);
    IF v_refusal IS NOT NULL THEN
      PERFORM waybill.raise_refusal(v_refusal);
    END IF;
  END IF;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.ask_payment_holding_order() IS 'Made by waybill.add_step_rule.';

CREATE OR REPLACE FUNCTION waybill.begin_capture(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text, p_amount bigint)
 RETURNS SETOF waybill.payment_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_amount bigint := coalesce(p_amount, v_payment.authorized);
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status <> 'authorized' THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'captured');
  END IF;
  IF v_amount NOT BETWEEN 1 AND v_payment.authorized THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_payment.authorized);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'capture', p_provider_key, v_amount,
            waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax))
  )
  UPDATE waybill.payments p SET status = 'capturing' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.begin_capture(bigint,uuid,uuid,text,bigint) TO waybill_app;
COMMENT ON FUNCTION waybill.begin_capture(bigint,uuid,uuid,text,bigint) IS 'Puts on record that a provider is about to be asked to take an amount (null: all that it holds). No row when there is no such payment.';

CREATE OR REPLACE FUNCTION waybill.begin_payment(p_tenant bigint, p_order uuid, p_payment uuid, p_attempt uuid, p_provider text, p_provider_key text, p_payment_method text, p_amount bigint)
 RETURNS SETOF waybill.payment_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_order waybill.orders := waybill.lock_order(p_tenant, p_order, NULL);
  v_amount bigint := coalesce(p_amount, v_order.total);
  v_tax bigint := waybill.share_of_tax(v_amount, nullif(v_order.total, 0), v_order.tax);
  v_refusal jsonb;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF v_order.id IS NULL THEN
    RETURN;
  END IF;
  IF v_order.status = 'canceled' THEN
    RAISE EXCEPTION 'order % is canceled: nothing is to be paid', p_order USING ERRCODE = 'WB031';
  END IF;
  v_refusal := waybill.payment_holding_order(p_tenant, p_order);
  IF v_refusal IS NOT NULL THEN
    PERFORM waybill.raise_refusal(v_refusal);
  END IF;
  IF v_amount NOT BETWEEN 1 AND v_order.total THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_order.total);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, payment_method, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'authorize', p_provider_key, p_payment_method, v_amount, v_tax)
  )
  INSERT INTO waybill.payments (tenant_id, id, order_id, provider, currency, amount, tax, created_at, updated_at)
  VALUES (p_tenant, p_payment, p_order, p_provider, v_order.currency, v_amount, v_tax, v_now, v_now);
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.begin_payment(bigint,uuid,uuid,uuid,text,text,text,bigint) TO waybill_app;
COMMENT ON FUNCTION waybill.begin_payment(bigint,uuid,uuid,uuid,text,text,text,bigint) IS 'Puts on record that a provider is about to be asked to hold an amount (null: the order''s total). No row when there is no such order.';

CREATE OR REPLACE FUNCTION waybill.begin_refund(p_tenant bigint, p_payment uuid, p_refund uuid, p_attempt uuid, p_provider_key text, p_amount bigint, p_tax bigint, p_reason text)
 RETURNS SETOF waybill.payment_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_left bigint := v_payment.captured - v_payment.refunded - v_payment.refunding;
  v_left_tax bigint := v_payment.captured_tax - v_payment.refunded_tax - v_payment.refunding_tax;
  v_amount bigint := coalesce(p_amount, v_left);
  v_tax bigint := coalesce(p_tax, waybill.share_of_tax(v_amount, nullif(v_left, 0), v_left_tax));
  v_now timestamptz := clock_timestamp();
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status NOT IN ('captured', 'refunded') THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'refunded');
  END IF;
  IF v_left < 1 OR v_amount > v_left OR v_tax > v_left_tax OR v_amount - v_tax > v_left - v_left_tax THEN
    RAISE EXCEPTION 'payment % has % (tax %) left to refund, not % (tax %)', p_payment, v_left, v_left_tax, v_amount, v_tax
      USING ERRCODE = 'WB033', DETAIL = jsonb_build_object('left', v_left, 'leftTax', v_left_tax)::text;
  END IF;
  IF v_amount < 1 OR v_tax NOT BETWEEN 0 AND v_amount THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_left);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, refund_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, p_refund, 'refund', p_provider_key, v_amount, v_tax)
  ), refund AS (
    INSERT INTO waybill.refunds (tenant_id, id, payment_id, amount, tax, reason, created_at, updated_at)
    VALUES (p_tenant, p_refund, p_payment, v_amount, v_tax, p_reason, v_now, v_now)
  )
  UPDATE waybill.payments p SET refunding = p.refunding + v_amount, refunding_tax = p.refunding_tax + v_tax
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.begin_refund(bigint,uuid,uuid,uuid,text,bigint,bigint,text) TO waybill_app;
COMMENT ON FUNCTION waybill.begin_refund(bigint,uuid,uuid,uuid,text,bigint,bigint,text) IS 'Promises an amount (null: all that is left) with the tax in it (null: in proportion) to a refund. No row when there is no such payment.';

CREATE OR REPLACE FUNCTION waybill.begin_void(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text)
 RETURNS SETOF waybill.payment_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status <> 'authorized' THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'voided');
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'void', p_provider_key, v_payment.amount, v_payment.tax)
  )
  UPDATE waybill.payments p SET status = 'voiding' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.begin_void(bigint,uuid,uuid,text) TO waybill_app;
COMMENT ON FUNCTION waybill.begin_void(bigint,uuid,uuid,text) IS 'Puts on record that a provider is about to be asked to let go of what it holds. No row when there is no such payment.';

CREATE OR REPLACE FUNCTION waybill.book_foreign_refund(p_payment waybill.payments, p_refund uuid, p_provider_ref text, p_amount bigint, p_reason text, p_cause text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_left bigint := p_payment.captured - p_payment.refunded - p_payment.refunding;
  v_left_tax bigint := p_payment.captured_tax - p_payment.refunded_tax - p_payment.refunding_tax;
  v_tax bigint := waybill.share_of_tax(p_amount, nullif(v_left, 0), v_left_tax);
  v_now timestamptz := clock_timestamp();
BEGIN
  IF p_amount BETWEEN 1 AND v_left THEN
    INSERT INTO waybill.refunds (tenant_id, id, payment_id, amount, tax, reason, cause, provider_ref, created_at, updated_at)
    VALUES (p_payment.tenant_id, p_refund, p_payment.id, p_amount, v_tax, p_reason, p_cause, p_provider_ref, v_now, v_now);
    WITH refund AS (
      UPDATE waybill.refunds r SET status = 'succeeded' WHERE r.tenant_id = p_payment.tenant_id AND r.id = p_refund
    )
    UPDATE waybill.payments p
    SET refunded = p.refunded + p_amount, refunded_tax = p.refunded_tax + v_tax,
        status = CASE WHEN p.refunded + p_amount = p.captured THEN 'refunded' ELSE p.status END
    WHERE p.tenant_id = p_payment.tenant_id AND p.id = p_payment.id;
  ELSE
    RAISE EXCEPTION 'the provider gave back % of a payment that has % left to refund', coalesce(p_amount::text, 'an unknown amount'), v_left
      USING ERRCODE = 'WB034';
  END IF;
END
$function$;
COMMENT ON FUNCTION waybill.book_foreign_refund(waybill.payments,uuid,text,bigint,text,text) IS 'Books a refund that nobody here asked for: one made at the provider, or by a bank in a dispute. The tax in it is in proportion.';

CREATE OR REPLACE FUNCTION waybill.guard_payment()
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
    IF NEW.status IS DISTINCT FROM 'processing' OR NEW.version IS DISTINCT FROM 1 THEN
      PERFORM waybill.refuse_beginning('payment', NEW.id, NEW.status, NEW.version, 'processing');
    END IF;
    -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
    IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
      NEW.updated_at := clock_timestamp();
    END IF;
    NEW.transition_reason := NULL;
    PERFORM waybill.keep_provider_ref(NEW, NULL);
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
  IF (NEW.tenant_id, NEW.id, NEW.order_id, NEW.provider, NEW.currency, NEW.amount, NEW.tax, NEW.created_at) IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.order_id, OLD.provider, OLD.currency, OLD.amount, OLD.tax, OLD.created_at) THEN
    RAISE EXCEPTION 'UPDATE on waybill.payments is refused: tenant_id, id, order_id, provider, currency, amount, tax, created_at never change' USING ERRCODE = 'WB002';
  END IF;
  IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
    PERFORM waybill.refuse_version('payment', OLD.id, OLD.version, NEW.version);
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  PERFORM waybill.keep_provider_ref(NEW, OLD);
  IF NEW.status <> OLD.status THEN
    v_rule_version := waybill.require_step('payment', OLD.id, OLD.status, NEW.status, v_reason IS NOT NULL);
    -- Here and not after the row, because only here the reason is at hand: it is an argument that the row doesn't keep.
    INSERT INTO waybill.payment_status_history (tenant_id, payment_id, seq, from_status, to_status, changed_by, changed_at, reason, request_id, rule_version)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), ''), v_rule_version
    FROM waybill.payment_status_history h WHERE h.tenant_id = NEW.tenant_id AND h.payment_id = NEW.id;
  END IF;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_payment() IS 'Made by waybill.attach_machine: what may be inserted and how it may change; version, time and history of a change.';

CREATE OR REPLACE FUNCTION waybill.guard_refund()
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
    IF NEW.status IS DISTINCT FROM 'processing' OR NEW.version IS DISTINCT FROM 1 THEN
      PERFORM waybill.refuse_beginning('refund', NEW.id, NEW.status, NEW.version, 'processing');
    END IF;
    -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
    IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
      NEW.updated_at := clock_timestamp();
    END IF;
    NEW.transition_reason := NULL;
    PERFORM waybill.keep_provider_ref(NEW, NULL);
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
  IF (NEW.tenant_id, NEW.id, NEW.payment_id, NEW.amount, NEW.tax, NEW.reason, NEW.cause, NEW.created_at) IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.payment_id, OLD.amount, OLD.tax, OLD.reason, OLD.cause, OLD.created_at) THEN
    RAISE EXCEPTION 'UPDATE on waybill.refunds is refused: tenant_id, id, payment_id, amount, tax, reason, cause, created_at never change' USING ERRCODE = 'WB002';
  END IF;
  IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
    PERFORM waybill.refuse_version('refund', OLD.id, OLD.version, NEW.version);
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  PERFORM waybill.keep_provider_ref(NEW, OLD);
  IF NEW.status <> OLD.status THEN
    v_rule_version := waybill.require_step('refund', OLD.id, OLD.status, NEW.status, v_reason IS NOT NULL);
    -- Here and not after the row, because only here the reason is at hand: it is an argument that the row doesn't keep.
    INSERT INTO waybill.refund_status_history (tenant_id, refund_id, seq, from_status, to_status, changed_by, changed_at, reason, request_id, rule_version)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), ''), v_rule_version
    FROM waybill.refund_status_history h WHERE h.tenant_id = NEW.tenant_id AND h.refund_id = NEW.id;
  END IF;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_refund() IS 'Made by waybill.attach_machine: what may be inserted and how it may change; version, time and history of a change.';

CREATE OR REPLACE FUNCTION waybill.keep_provider_ref(p_new anyelement, p_old anyelement)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF p_old.provider_ref IS NOT NULL AND p_new.provider_ref IS DISTINCT FROM p_old.provider_ref THEN
    RAISE EXCEPTION 'UPDATE on % is refused: a known provider_ref never changes', pg_typeof(p_new) USING ERRCODE = 'WB002';
  END IF;
END
$function$;
COMMENT ON FUNCTION waybill.keep_provider_ref(anyelement,anyelement) IS 'A rule of payments and refunds: what the provider calls one, once that is known, is what it is called.';

CREATE OR REPLACE FUNCTION waybill.keep_total_while_paying()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_refusal jsonb;
BEGIN
  IF NEW.total <> OLD.total THEN
    v_refusal := waybill.payment_holding_order(NEW.tenant_id, NEW.id);
    IF v_refusal IS NOT NULL THEN
      PERFORM waybill.raise_refusal(v_refusal);
    END IF;
  END IF;
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.keep_total_while_paying() IS 'BEFORE UPDATE OF total … FOR EACH ROW of orders: no other total while a payment is live.';

CREATE OR REPLACE FUNCTION waybill.keep_webhook_event(p_tenant bigint, p_provider text, p_event text, p_type text, p_digest bytea, p_provider_key text, p_payment_ref text, p_subject text, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text, p_cause text, p_new_refund uuid, p_problem text, OUT outcome text, OUT payment_id uuid)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_refund uuid;
BEGIN
  -- A second delivery of the same event waits here for the first one.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant || '/' || p_provider || '/' || p_event, 20));
  IF EXISTS (SELECT FROM waybill.payment_webhook_events e
             WHERE e.tenant_id = p_tenant AND e.provider = p_provider AND e.event = p_event) THEN
    outcome := 'seen';
    RETURN;
  END IF;
  -- By what was asked of the provider under this key, or, for what nobody here asked for, by the provider's name of the payment.
  SELECT a.payment_id, a.refund_id INTO payment_id, v_refund
  FROM waybill.payment_attempts a JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.id = a.payment_id
  WHERE a.tenant_id = p_tenant AND a.provider_key = p_provider_key AND p.provider = p_provider;
  IF payment_id IS NULL THEN
    SELECT p.id INTO payment_id FROM waybill.payments p
    WHERE p.tenant_id = p_tenant AND p.provider = p_provider AND p.provider_ref = p_payment_ref;
  END IF;
  outcome := CASE
    WHEN payment_id IS NULL THEN 'unknown'
    WHEN p_problem IS NOT NULL THEN 'conflict'
    WHEN p_fact IS NULL THEN 'unknown'
    WHEN p_subject = 'payment' THEN waybill.apply_payment_fact(p_tenant, payment_id, p_fact, p_provider_ref, p_amount, p_decline_code)
    ELSE waybill.apply_refund_fact(p_tenant, payment_id, v_refund, p_fact, p_provider_ref, p_amount, p_decline_code, p_cause, p_new_refund)
    END;
  INSERT INTO waybill.payment_webhook_events (tenant_id, provider, event, type, payment_id, outcome, digest)
  VALUES (p_tenant, p_provider, p_event, p_type, payment_id, outcome, p_digest);
  IF outcome = 'conflict' THEN
    PERFORM waybill.lock_payment(p_tenant, payment_id);
    INSERT INTO waybill.payment_conflicts
      (tenant_id, provider, event, payment_id, problem, refund_id, subject, fact, reference, amount, decline_code, cause)
    VALUES (p_tenant, p_provider, p_event, payment_id, p_problem, v_refund, p_subject, p_fact, p_provider_ref, p_amount, p_decline_code, p_cause);
    UPDATE waybill.payments p SET conflicts = p.conflicts + 1 WHERE p.tenant_id = p_tenant AND p.id = keep_webhook_event.payment_id;
  END IF;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.keep_webhook_event(bigint,text,text,text,bytea,text,text,text,text,text,bigint,text,text,uuid,text) TO waybill_app;
COMMENT ON FUNCTION waybill.keep_webhook_event(bigint,text,text,text,bytea,text,text,text,text,text,bigint,text,text,uuid,text) IS 'Keeps a provider''s event and applies its fact, once, or, with a problem, keeps it as a conflict of the payment it is about. Outcome: applied, nothing-to-do, conflict, unknown, or seen for one that came before.';

CREATE OR REPLACE FUNCTION waybill.lock_payment(p_tenant bigint, p_payment uuid)
 RETURNS waybill.payments
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment waybill.payments;
BEGIN
  -- Order first, then payment, then refund: the order of a payment never changes, so it may be read without a lock.
  PERFORM waybill.lock_order(p_tenant, p.order_id, NULL) FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  SELECT p.* INTO v_payment FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment FOR NO KEY UPDATE;
  RETURN v_payment;
END
$function$;
COMMENT ON FUNCTION waybill.lock_payment(bigint,uuid) IS 'Locks a payment and its order until the transaction ends. A row of nulls when there is none.';

CREATE OR REPLACE FUNCTION waybill.order_coverage(p_tenant bigint, p_order uuid)
 RETURNS TABLE(total bigint, held bigint, taken bigint)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT o.total,
         coalesce(sum(CASE p.status
           WHEN 'authorized' THEN p.authorized
           -- What isn't taken is let go, so while a part is being taken only that part is sure.
           WHEN 'capturing' THEN (SELECT a.amount FROM waybill.payment_attempts a
                                  WHERE a.tenant_id = p_tenant AND a.payment_id = p.id AND a.refund_id IS NULL AND a.status = 'processing')
           ELSE p.captured - p.refunded - p.refunding END), 0)::bigint,
         coalesce(sum(p.captured - p.refunded - p.refunding), 0)::bigint
  FROM waybill.orders o LEFT JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.order_id = o.id
  WHERE o.tenant_id = p_tenant AND o.id = p_order
  GROUP BY o.total
$function$;
GRANT EXECUTE ON FUNCTION waybill.order_coverage(bigint,uuid) TO waybill_app;
COMMENT ON FUNCTION waybill.order_coverage(bigint,uuid) IS 'What an order asks for, how much of it its payments hold or have taken, and how much they have taken: what was given back, is being given back or let go of, or nobody can tell of, is neither.';

CREATE OR REPLACE FUNCTION waybill.payment_holding_order(p_tenant bigint, p_order uuid)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT jsonb_build_object(
    'code', 'WB030',
    'message', format('order %s has a payment %s, which is %s%s', p_order, p.id, p.status,
                      CASE WHEN p.conflicts > 0 THEN ' and of which its provider says something else' END),
    'detail', jsonb_build_object('paymentId', p.id, 'status', p.status, 'conflicts', p.conflicts),
    'hint', CASE WHEN p.conflicts > 0 THEN 'waybill.payment_conflicts says what; waybill.resolve_payment_conflict ends it.'
                 ELSE 'Void it or refund it first.' END)
  FROM waybill.payments p
  WHERE p.tenant_id = p_tenant AND p.order_id = p_order
    AND (p.status NOT IN ('declined', 'voided', 'refunded') OR p.conflicts > 0)
  ORDER BY p.conflicts DESC LIMIT 1
$function$;
GRANT EXECUTE ON FUNCTION waybill.payment_holding_order(bigint,uuid) TO waybill_app;
COMMENT ON FUNCTION waybill.payment_holding_order(bigint,uuid) IS 'What an order''s live payment, or one with open conflicts, has against canceling the order, another total and another payment; null when there is none. A new payment locks the order, so none slips in.';

CREATE OR REPLACE FUNCTION waybill.payment_snapshot(p waybill.payments)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object('id', p.id, 'orderId', p.order_id, 'provider', p.provider, 'providerRef', p.provider_ref,
    'status', p.status, 'version', p.version, 'currency', p.currency, 'amount', p.amount, 'tax', p.tax,
    'authorized', p.authorized, 'captured', p.captured, 'capturedTax', p.captured_tax, 'refunding', p.refunding,
    'refundingTax', p.refunding_tax, 'refunded', p.refunded, 'refundedTax', p.refunded_tax, 'declineCode', p.decline_code,
    'conflicts', p.conflicts,
    'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(p.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.payment_snapshot(waybill.payments) TO waybill_audit;
COMMENT ON FUNCTION waybill.payment_snapshot(waybill.payments) IS 'A payment as its events keep it.';

CREATE OR REPLACE FUNCTION waybill.refund_snapshot(r waybill.refunds)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object('id', r.id, 'paymentId', r.payment_id, 'providerRef', r.provider_ref, 'status', r.status,
    'version', r.version, 'amount', r.amount, 'tax', r.tax, 'reason', r.reason, 'cause', r.cause, 'declineCode', r.decline_code,
    'createdAt', to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(r.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.refund_snapshot(waybill.refunds) TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.refund_snapshot(waybill.refunds) TO waybill_audit;
COMMENT ON FUNCTION waybill.refund_snapshot(waybill.refunds) IS 'A refund as its events keep it.';

CREATE OR REPLACE FUNCTION waybill.refuse_payment_amount(p_amount bigint, p_max bigint)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RAISE EXCEPTION 'an amount of % is not between 1 and %', p_amount, p_max
    USING ERRCODE = 'WB032', DETAIL = jsonb_build_object('amount', p_amount, 'max', p_max)::text;
END
$function$;

CREATE OR REPLACE FUNCTION waybill.refuse_payment_step(p_payment waybill.payments, p_to text)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF p_payment.status IN ('processing', 'capturing', 'voiding', 'needs_reconciliation') THEN
    RAISE EXCEPTION 'payment % is %: what was begun must end first', p_payment.id, p_payment.status
      USING ERRCODE = 'WB030', DETAIL = jsonb_build_object('paymentId', p_payment.id, 'status', p_payment.status)::text;
  END IF;
  RAISE EXCEPTION 'payment % cannot go from % to %', p_payment.id, p_payment.status, p_to
    USING ERRCODE = 'WB010', DETAIL = jsonb_build_object('from', p_payment.status, 'to', p_to, 'allowed', coalesce((
      SELECT jsonb_agg(t.to_state ORDER BY t.to_state) FROM waybill.valid_transitions t
      WHERE t.machine = 'payment' AND t.from_state = p_payment.status AND t.roles <> '{system}'), '[]'::jsonb))::text;
END
$function$;

CREATE OR REPLACE FUNCTION waybill.resolve_payment_conflict(p_tenant bigint, p_provider text, p_event text, p_resolution text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_payment uuid;
BEGIN
  SELECT c.payment_id INTO v_payment FROM waybill.payment_conflicts c
  WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.event = p_event;
  PERFORM waybill.lock_payment(p_tenant, v_payment);
  UPDATE waybill.payment_conflicts c
  SET resolved_at = clock_timestamp(), resolved_by = current_setting('waybill.actor')::uuid, resolution = p_resolution
  WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.event = p_event AND c.resolved_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no open conflict by the event % of %', p_event, p_provider
      USING ERRCODE = 'WB035', HINT = 'SELECT * FROM waybill.payment_conflicts WHERE resolved_at IS NULL lists them.';
  END IF;
  UPDATE waybill.payments p SET conflicts = p.conflicts - 1 WHERE p.tenant_id = p_tenant AND p.id = v_payment;
END
$function$;
COMMENT ON FUNCTION waybill.resolve_payment_conflict(bigint,text,text,text) IS 'Ends a conflict: somebody looked at the provider, put right what was wrong, and says how. For waybill_owner.';

CREATE OR REPLACE FUNCTION waybill.retry_payment_conflict(p_tenant bigint, p_provider text, p_event text, p_new_refund uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  c waybill.payment_conflicts;
  v_outcome text;
BEGIN
  SELECT x.* INTO c FROM waybill.payment_conflicts x
  WHERE x.tenant_id = p_tenant AND x.provider = p_provider AND x.event = p_event AND x.fact IS NOT NULL AND x.resolved_at IS NULL;
  IF c.event IS NULL THEN
    RETURN 'nothing-to-do';
  END IF;
  v_outcome := CASE c.subject
    WHEN 'payment' THEN waybill.apply_payment_fact(p_tenant, c.payment_id, c.fact, c.reference, c.amount, c.decline_code)
    ELSE waybill.apply_refund_fact(p_tenant, c.payment_id, c.refund_id, c.fact, c.reference, c.amount, c.decline_code, c.cause, p_new_refund)
    END;
  PERFORM waybill.resolve_payment_conflict(p_tenant, p_provider, p_event, 'it fits what came after it: ' || v_outcome);
  RETURN v_outcome;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.retry_payment_conflict(bigint,text,text,uuid) TO waybill_app;
COMMENT ON FUNCTION waybill.retry_payment_conflict(bigint,text,text,uuid) IS 'Applies the fact of a conflict after all, since facts come in any order; refuses what still can''t be.';

CREATE OR REPLACE FUNCTION waybill.settle_payment_attempt(p_tenant bigint, p_attempt uuid, p_result text, p_provider_ref text, p_amount bigint, p_decline_code text)
 RETURNS SETOF waybill.payment_details
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_attempt waybill.payment_attempts;
  v_payment waybill.payments;
  v_amount bigint;
  v_tax bigint;
  v_most bigint;
  v_settled timestamptz;
BEGIN
  SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
  v_payment := waybill.lock_payment(p_tenant, v_attempt.payment_id);
  -- Again, under the lock: a webhook or another process may have settled it meanwhile.
  SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
  v_amount := coalesce(p_amount, v_attempt.amount);
  v_tax := CASE v_amount WHEN v_attempt.amount THEN v_attempt.tax
                         ELSE waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax) END;
  -- A provider that says it did another amount than it could: what it really did nobody here can tell.
  v_most := CASE v_attempt.operation WHEN 'authorize' THEN v_payment.amount WHEN 'capture' THEN v_payment.authorized ELSE v_attempt.amount END;
  IF p_result = 'succeeded' AND (v_amount NOT BETWEEN 1 AND v_most OR (v_attempt.operation = 'refund' AND v_amount <> v_most)) THEN
    p_result := 'needs_reconciliation';
  END IF;
  v_settled := CASE WHEN p_result <> 'needs_reconciliation' THEN clock_timestamp() END;

  IF v_attempt.settled_at IS NOT NULL OR v_attempt.status = p_result THEN
    NULL;
  ELSIF v_attempt.operation = 'refund' THEN
    WITH attempt AS (
      UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
      WHERE a.tenant_id = p_tenant AND a.id = p_attempt
    ), refund AS (
      UPDATE waybill.refunds r
      SET status = CASE p_result WHEN 'refused' THEN 'failed' ELSE p_result END,
          provider_ref = coalesce(r.provider_ref, p_provider_ref), decline_code = p_decline_code
      WHERE r.tenant_id = p_tenant AND r.id = v_attempt.refund_id
    )
    UPDATE waybill.payments p
    SET refunding = p.refunding - v_attempt.amount, refunding_tax = p.refunding_tax - v_attempt.tax,
        refunded = p.refunded + CASE p_result WHEN 'succeeded' THEN v_attempt.amount ELSE 0 END,
        refunded_tax = p.refunded_tax + CASE p_result WHEN 'succeeded' THEN v_attempt.tax ELSE 0 END,
        status = CASE WHEN p_result = 'succeeded' AND p.refunded + v_attempt.amount = p.captured THEN 'refunded' ELSE p.status END
    WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id AND p_result <> 'needs_reconciliation';
  ELSE
    WITH attempt AS (
      UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
      WHERE a.tenant_id = p_tenant AND a.id = p_attempt
    )
    UPDATE waybill.payments p
    SET provider_ref = coalesce(p.provider_ref, p_provider_ref),
        decline_code = coalesce(p_decline_code, p.decline_code),
        authorized = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'authorize' THEN v_amount ELSE p.authorized END,
        captured = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_amount ELSE p.captured END,
        captured_tax = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_tax ELSE p.captured_tax END,
        status = CASE p_result
          WHEN 'needs_reconciliation' THEN p_result
          WHEN 'refused' THEN CASE v_attempt.operation WHEN 'authorize' THEN 'declined' ELSE 'authorized' END
          ELSE CASE v_attempt.operation WHEN 'authorize' THEN 'authorized' WHEN 'capture' THEN 'captured' ELSE 'voided' END END
    WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id;
  END IF;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = v_attempt.payment_id;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.settle_payment_attempt(bigint,uuid,text,text,bigint,text) TO waybill_app;
COMMENT ON FUNCTION waybill.settle_payment_attempt(bigint,uuid,text,text,bigint,text) IS 'Writes down how an attempt ended: succeeded, refused, or needs_reconciliation when nobody can tell, as with an amount that can''t be. An attempt that has ended is left as it is.';

CREATE OR REPLACE FUNCTION waybill.share_of_tax(p_part bigint, p_whole bigint, p_whole_tax bigint)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT least(p_part, p_whole_tax, greatest(p_part - (p_whole - p_whole_tax),
                                             round(p_part::numeric * p_whole_tax / p_whole)::bigint))
$function$;
COMMENT ON FUNCTION waybill.share_of_tax(bigint,bigint,bigint) IS 'The tax in a part of an amount: in proportion, rounded half up, and never so that tax or net of the whole is exceeded.';
