CREATE TABLE waybill.payments (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  order_id          uuid NOT NULL,
  provider          text COLLATE "C" NOT NULL,
  provider_ref      text COLLATE "C",
  status            text COLLATE "C" NOT NULL,
  version           int NOT NULL DEFAULT 1,
  currency          text COLLATE "C" NOT NULL,
  amount            bigint NOT NULL,
  tax               bigint NOT NULL,
  authorized        bigint NOT NULL DEFAULT 0,
  captured          bigint NOT NULL DEFAULT 0,
  captured_tax      bigint NOT NULL DEFAULT 0,
  refunding         bigint NOT NULL DEFAULT 0,
  refunding_tax     bigint NOT NULL DEFAULT 0,
  refunded          bigint NOT NULL DEFAULT 0,
  refunded_tax      bigint NOT NULL DEFAULT 0,
  decline_code      text COLLATE "C",
  created_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT payments_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT payments_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
  CONSTRAINT payments_provider_ref_key UNIQUE (tenant_id, provider, provider_ref),
  CONSTRAINT payments_status_check CHECK (status IN ('processing', 'authorized', 'declined', 'capturing', 'captured',
    'voiding', 'voided', 'refunded', 'needs_reconciliation')),
  CONSTRAINT payments_provider_format CHECK (provider ~ '^[a-z][a-z0-9_-]{0,31}$'),
  CONSTRAINT payments_provider_ref_length CHECK (length(provider_ref) BETWEEN 1 AND 255),
  CONSTRAINT payments_version_positive CHECK (version >= 1),
  CONSTRAINT payments_currency_format CHECK (currency ~ '^[A-Z]{3}$'),
  CONSTRAINT payments_amount_range CHECK (amount BETWEEN 1 AND 9007199254740991 AND tax BETWEEN 0 AND amount),
  CONSTRAINT payments_authorized_within_amount CHECK (authorized BETWEEN 0 AND amount),
  CONSTRAINT payments_captured_within_authorized CHECK (captured BETWEEN 0 AND authorized
    AND captured_tax BETWEEN 0 AND tax AND captured - captured_tax BETWEEN 0 AND amount - tax),
  CONSTRAINT payments_refunded_within_captured CHECK (
    refunded >= 0 AND refunding >= 0 AND refunded + refunding <= captured
    AND refunded_tax >= 0 AND refunding_tax >= 0 AND refunded_tax + refunding_tax <= captured_tax
    AND refunded >= refunded_tax AND refunding >= refunding_tax
    AND (refunded - refunded_tax) + (refunding - refunding_tax) <= captured - captured_tax),
  CONSTRAINT payments_decline_code_length CHECK (length(decline_code) BETWEEN 1 AND 100),
  CONSTRAINT payments_transition_reason_passes CHECK (transition_reason IS NULL)
);

COMMENT ON COLUMN waybill.payments.refunding IS
  'Promised to refunds that are under way; what is left to refund is captured - refunded - refunding.';

CREATE UNIQUE INDEX payments_live_key ON waybill.payments (tenant_id, order_id)
  WHERE status NOT IN ('declined', 'voided', 'refunded');

COMMENT ON INDEX waybill.payments_live_key IS
  'At most one live payment an order, whatever becomes of idempotency keys. Every state that holds money or may yet is live.';

CREATE TABLE waybill.refunds (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  payment_id        uuid NOT NULL,
  status            text COLLATE "C" NOT NULL,
  version           int NOT NULL DEFAULT 1,
  amount            bigint NOT NULL,
  tax               bigint NOT NULL,
  reason            text,
  provider_ref      text COLLATE "C",
  decline_code      text COLLATE "C",
  created_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT refunds_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT refunds_status_check CHECK (status IN ('processing', 'succeeded', 'failed', 'needs_reconciliation')),
  CONSTRAINT refunds_version_positive CHECK (version >= 1),
  CONSTRAINT refunds_amount_range CHECK (amount BETWEEN 1 AND 9007199254740991 AND tax BETWEEN 0 AND amount),
  CONSTRAINT refunds_reason_length CHECK (length(reason) BETWEEN 1 AND 500),
  CONSTRAINT refunds_provider_ref_length CHECK (length(provider_ref) BETWEEN 1 AND 255),
  CONSTRAINT refunds_decline_code_length CHECK (length(decline_code) BETWEEN 1 AND 100),
  CONSTRAINT refunds_transition_reason_passes CHECK (transition_reason IS NULL)
);

CREATE INDEX refunds_payment_idx ON waybill.refunds (tenant_id, payment_id, created_at, id);

ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_pkey PRIMARY KEY (tenant_id, id);

CREATE TABLE waybill.payment_attempts (
  tenant_id      bigint NOT NULL,
  id             uuid NOT NULL,
  payment_id     uuid NOT NULL,
  refund_id      uuid,
  operation      text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL DEFAULT 'processing',
  provider_key   text COLLATE "C" NOT NULL,
  payment_method text COLLATE "C",
  amount         bigint NOT NULL,
  tax            bigint NOT NULL,
  decline_code   text COLLATE "C",
  started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at     timestamptz,
  CONSTRAINT payment_attempts_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT payment_attempts_provider_key_key UNIQUE (tenant_id, provider_key),
  CONSTRAINT payment_attempts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT payment_attempts_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds (tenant_id, id),
  CONSTRAINT payment_attempts_operation_check CHECK (operation IN ('authorize', 'capture', 'void', 'refund')),
  CONSTRAINT payment_attempts_refund_given CHECK ((operation = 'refund') = (refund_id IS NOT NULL)),
  CONSTRAINT payment_attempts_method_given CHECK ((operation = 'authorize') = (payment_method IS NOT NULL)),
  CONSTRAINT payment_attempts_method_length CHECK (length(payment_method) BETWEEN 1 AND 255),
  CONSTRAINT payment_attempts_status_check CHECK (status IN ('processing', 'succeeded', 'refused', 'needs_reconciliation')),
  CONSTRAINT payment_attempts_provider_key_format CHECK (provider_key ~ '^[0-9a-f]{64}$'),
  CONSTRAINT payment_attempts_amount_range CHECK (amount BETWEEN 1 AND 9007199254740991 AND tax BETWEEN 0 AND amount),
  CONSTRAINT payment_attempts_settled CHECK ((status IN ('succeeded', 'refused')) = (settled_at IS NOT NULL))
);

COMMENT ON TABLE waybill.payment_attempts IS
  'One row for each thing that is asked of a provider: enough to ask again under the same key, without the client.';

COMMENT ON CONSTRAINT payment_attempts_provider_key_key ON waybill.payment_attempts IS
  'Outlives the client''s key: the provider may still know it when that is forgotten here, and would answer for the old request.';

CREATE UNIQUE INDEX payment_attempts_pending_key ON waybill.payment_attempts (tenant_id, payment_id)
  WHERE refund_id IS NULL AND status IN ('processing', 'needs_reconciliation');

CREATE INDEX payment_attempts_refund_idx ON waybill.payment_attempts (tenant_id, refund_id) WHERE refund_id IS NOT NULL;

CREATE TABLE waybill.payment_status_history (
  tenant_id    bigint NOT NULL,
  payment_id uuid NOT NULL,
  seq          int NOT NULL,
  from_status  text COLLATE "C",
  to_status    text COLLATE "C" NOT NULL,
  changed_by   uuid NOT NULL,
  changed_at   timestamptz NOT NULL,
  reason       text,
  request_id   text,
  CONSTRAINT payment_status_history_pkey PRIMARY KEY (tenant_id, payment_id, seq),
  CONSTRAINT payment_status_history_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT payment_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users (tenant_id, id),
  CONSTRAINT payment_status_history_begins CHECK ((seq = 1) = (from_status IS NULL)),
  CONSTRAINT payment_status_history_reason_length CHECK (length(reason) BETWEEN 1 AND 500)
);

CREATE TABLE waybill.refund_status_history (
  tenant_id    bigint NOT NULL,
  refund_id uuid NOT NULL,
  seq          int NOT NULL,
  from_status  text COLLATE "C",
  to_status    text COLLATE "C" NOT NULL,
  changed_by   uuid NOT NULL,
  changed_at   timestamptz NOT NULL,
  reason       text,
  request_id   text,
  CONSTRAINT refund_status_history_pkey PRIMARY KEY (tenant_id, refund_id, seq),
  CONSTRAINT refund_status_history_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds (tenant_id, id),
  CONSTRAINT refund_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users (tenant_id, id),
  CONSTRAINT refund_status_history_begins CHECK ((seq = 1) = (from_status IS NULL)),
  CONSTRAINT refund_status_history_reason_length CHECK (length(reason) BETWEEN 1 AND 500)
);

CREATE TABLE waybill.payment_webhook_events (
  tenant_id   bigint NOT NULL,
  provider    text COLLATE "C" NOT NULL,
  event       text COLLATE "C" NOT NULL,
  type        text COLLATE "C" NOT NULL,
  payment_id  uuid,
  outcome     text COLLATE "C" NOT NULL,
  digest      bytea NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_webhook_events_pkey PRIMARY KEY (tenant_id, provider, event),
  CONSTRAINT payment_webhook_events_outcome_check CHECK (outcome IN ('applied', 'nothing-to-do', 'unknown')),
  CONSTRAINT payment_webhook_events_event_length CHECK (length(event) BETWEEN 1 AND 255),
  CONSTRAINT payment_webhook_events_type_length CHECK (length(type) BETWEEN 1 AND 255),
  CONSTRAINT payment_webhook_events_digest_length CHECK (octet_length(digest) = 32)
);

COMMENT ON COLUMN waybill.payment_webhook_events.digest IS
  'SHA-256 of the body. The body itself may hold personal data and can be read at the provider by its event id.';

CREATE SCHEMA payment_inbox;

CREATE TABLE payment_inbox.stray_events (
  provider    text COLLATE "C" NOT NULL,
  event       text COLLATE "C" NOT NULL,
  type        text COLLATE "C" NOT NULL,
  digest      bytea NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT stray_events_pkey PRIMARY KEY (provider, event),
  CONSTRAINT stray_events_event_length CHECK (length(event) BETWEEN 1 AND 255),
  CONSTRAINT stray_events_type_length CHECK (length(type) BETWEEN 1 AND 255),
  CONSTRAINT stray_events_digest_length CHECK (octet_length(digest) = 32)
);

COMMENT ON TABLE payment_inbox.stray_events IS
  'Signed events that name no tenant of ours, such as of payments that somebody made at the provider by hand. Apart from what belongs to tenants.';

GRANT USAGE ON SCHEMA payment_inbox TO waybill_app;

GRANT SELECT, INSERT ON payment_inbox.stray_events TO waybill_app;

ALTER TABLE waybill.payments ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY payments_tenant ON waybill.payments USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER payments_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.payments
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

GRANT SELECT ON waybill.payments TO waybill_app, waybill_audit;

ALTER TABLE waybill.refunds ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY refunds_tenant ON waybill.refunds USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER refunds_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.refunds
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

GRANT SELECT ON waybill.refunds TO waybill_app, waybill_audit;

ALTER TABLE waybill.payment_attempts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY payment_attempts_tenant ON waybill.payment_attempts USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER payment_attempts_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.payment_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

GRANT SELECT ON waybill.payment_attempts TO waybill_app, waybill_audit;

ALTER TABLE waybill.payment_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY payment_status_history_tenant ON waybill.payment_status_history USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER payment_status_history_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.payment_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

GRANT SELECT ON waybill.payment_status_history TO waybill_app, waybill_audit;

ALTER TABLE waybill.refund_status_history ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY refund_status_history_tenant ON waybill.refund_status_history USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER refund_status_history_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.refund_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

GRANT SELECT ON waybill.refund_status_history TO waybill_app, waybill_audit;

ALTER TABLE waybill.payment_webhook_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY payment_webhook_events_tenant ON waybill.payment_webhook_events USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint) WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE TRIGGER payment_webhook_events_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.payment_webhook_events
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();

GRANT SELECT ON waybill.payment_webhook_events TO waybill_app, waybill_audit;
