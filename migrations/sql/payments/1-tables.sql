CREATE DOMAIN waybill.attempt_status AS text COLLATE "C"
  CONSTRAINT attempt_status_check CHECK (VALUE IN ('processing', 'succeeded', 'refused', 'needs_reconciliation'));

CREATE DOMAIN waybill.provider_operation AS text COLLATE "C"
  CONSTRAINT provider_operation_check CHECK (VALUE IN ('authorize', 'capture', 'void', 'refund'));

CREATE DOMAIN waybill.event_outcome AS text COLLATE "C"
  CONSTRAINT event_outcome_check CHECK (VALUE IN ('applied', 'nothing-to-do', 'conflict', 'unknown'));

CREATE DOMAIN waybill.fact_subject AS text COLLATE "C"
  CONSTRAINT fact_subject_check CHECK (VALUE IN ('payment', 'refund'));

CREATE DOMAIN waybill.provider_fact AS text COLLATE "C"
  CONSTRAINT provider_fact_check CHECK (VALUE IN ('authorized', 'declined', 'captured', 'voided', 'succeeded', 'failed'));

CREATE DOMAIN waybill.refund_cause AS text COLLATE "C"
  CONSTRAINT refund_cause_check CHECK (VALUE IN ('request', 'provider', 'dispute'));

COMMENT ON DOMAIN waybill.refund_cause IS
  'Who gave the money back: a request of ours, somebody at the provider without us, or a bank for a customer who disputes the payment.';

CREATE DOMAIN waybill.provider_name AS text COLLATE "C"
  CONSTRAINT provider_name_format CHECK (length(VALUE) <= 32 AND VALUE ~ '^[a-z][a-z0-9_-]*$');

CREATE DOMAIN waybill.provider_text AS text COLLATE "C"
  CONSTRAINT provider_text_length CHECK (length(VALUE) BETWEEN 1 AND 255);

COMMENT ON DOMAIN waybill.provider_text IS 'What a provider calls something of its own: a payment, a method, an event.';

CREATE DOMAIN waybill.provider_key AS text COLLATE "C"
  CONSTRAINT provider_key_format CHECK (length(VALUE) = 64 AND VALUE ~ '^[0-9a-f]+$');

CREATE DOMAIN waybill.decline_code AS text COLLATE "C"
  CONSTRAINT decline_code_length CHECK (length(VALUE) BETWEEN 1 AND 100);

CREATE TABLE waybill.payments (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  order_id          uuid NOT NULL,
  provider          waybill.provider_name NOT NULL,
  provider_ref      waybill.provider_text,
  status            text COLLATE "C" NOT NULL DEFAULT 'processing',
  version           int NOT NULL DEFAULT 1,
  currency          waybill.currency_code NOT NULL,
  amount            waybill.minor_units NOT NULL,
  tax               waybill.minor_units NOT NULL,
  authorized        waybill.minor_units NOT NULL DEFAULT 0,
  captured          waybill.minor_units NOT NULL DEFAULT 0,
  captured_tax      waybill.minor_units NOT NULL DEFAULT 0,
  refunding         waybill.minor_units NOT NULL DEFAULT 0,
  refunding_tax     waybill.minor_units NOT NULL DEFAULT 0,
  refunded          waybill.minor_units NOT NULL DEFAULT 0,
  refunded_tax      waybill.minor_units NOT NULL DEFAULT 0,
  decline_code      waybill.decline_code,
  conflicts         int NOT NULL DEFAULT 0,
  created_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT payments_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT payments_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
  CONSTRAINT payments_provider_ref_key UNIQUE (tenant_id, provider, provider_ref),
  CONSTRAINT payments_status_check CHECK (status IN ('processing', 'authorized', 'declined', 'capturing', 'captured',
    'voiding', 'voided', 'refunded', 'needs_reconciliation')),
  CONSTRAINT payments_amount_range CHECK (amount >= 1 AND tax <= amount),
  CONSTRAINT payments_authorized_within_amount CHECK (authorized <= amount),
  CONSTRAINT payments_captured_within_authorized CHECK (captured BETWEEN 0 AND authorized
    AND captured_tax BETWEEN 0 AND tax AND captured - captured_tax BETWEEN 0 AND amount - tax),
  CONSTRAINT payments_conflicts_counted CHECK (conflicts >= 0),
  CONSTRAINT payments_refunded_within_captured CHECK (
    refunded >= 0 AND refunding >= 0 AND refunded + refunding <= captured
    AND refunded_tax >= 0 AND refunding_tax >= 0 AND refunded_tax + refunding_tax <= captured_tax
    AND refunded >= refunded_tax AND refunding >= refunding_tax
    AND (refunded - refunded_tax) + (refunding - refunding_tax) <= captured - captured_tax)
);

COMMENT ON COLUMN waybill.payments.refunding IS
  'Promised to refunds that are under way; what is left to refund is captured - refunded - refunding.';

COMMENT ON COLUMN waybill.payments.conflicts IS
  'How many rows of payment_conflicts are open. Like a live payment, one with conflicts keeps its order from being canceled.';

CREATE UNIQUE INDEX payments_live_key ON waybill.payments (tenant_id, order_id)
  WHERE status NOT IN ('declined', 'voided', 'refunded');

COMMENT ON INDEX waybill.payments_live_key IS
  'At most one live payment an order, whatever becomes of idempotency keys. Every state that holds money or may yet is live.';

SELECT waybill.make_tenant_table('waybill.payments', 'money that moved is never forgotten');


CREATE TABLE waybill.refunds (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  payment_id        uuid NOT NULL,
  status            text COLLATE "C" NOT NULL DEFAULT 'processing',
  version           int NOT NULL DEFAULT 1,
  amount            waybill.minor_units NOT NULL,
  tax               waybill.minor_units NOT NULL,
  reason            waybill.reason,
  cause             waybill.refund_cause NOT NULL DEFAULT 'request',
  provider_ref      waybill.provider_text,
  decline_code      waybill.decline_code,
  created_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT refunds_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT refunds_status_check CHECK (status IN ('processing', 'succeeded', 'failed', 'needs_reconciliation')),
  CONSTRAINT refunds_amount_range CHECK (amount >= 1 AND tax <= amount)
);

CREATE INDEX refunds_payment_idx ON waybill.refunds (tenant_id, payment_id, created_at, id);

CREATE UNIQUE INDEX refunds_provider_ref_key ON waybill.refunds (tenant_id, payment_id, provider_ref);

ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_pkey PRIMARY KEY (tenant_id, id);

SELECT waybill.make_tenant_table('waybill.refunds', 'money that moved is never forgotten');


CREATE TABLE waybill.payment_attempts (
  tenant_id      bigint NOT NULL,
  id             uuid NOT NULL,
  payment_id     uuid NOT NULL,
  refund_id      uuid,
  operation      waybill.provider_operation NOT NULL,
  status         waybill.attempt_status NOT NULL DEFAULT 'processing',
  provider_key   waybill.provider_key NOT NULL,
  payment_method waybill.provider_text,
  amount         waybill.minor_units NOT NULL,
  tax            waybill.minor_units NOT NULL,
  decline_code   waybill.decline_code,
  started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at     timestamptz,
  CONSTRAINT payment_attempts_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT payment_attempts_provider_key_key UNIQUE (tenant_id, provider_key),
  CONSTRAINT payment_attempts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT payment_attempts_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds (tenant_id, id),
  CONSTRAINT payment_attempts_refund_given CHECK ((operation = 'refund') = (refund_id IS NOT NULL)),
  CONSTRAINT payment_attempts_method_given CHECK ((operation = 'authorize') = (payment_method IS NOT NULL)),
  CONSTRAINT payment_attempts_amount_range CHECK (amount >= 1 AND tax <= amount),
  CONSTRAINT payment_attempts_settled CHECK ((status IN ('succeeded', 'refused')) = (settled_at IS NOT NULL))
);

COMMENT ON TABLE waybill.payment_attempts IS
  'One row for each thing that is asked of a provider: enough to ask again under the same key, without the client.';

COMMENT ON CONSTRAINT payment_attempts_provider_key_key ON waybill.payment_attempts IS
  'Outlives the client''s key: the provider may still know it when that is forgotten here, and would answer for the old request.';

CREATE UNIQUE INDEX payment_attempts_pending_key ON waybill.payment_attempts (tenant_id, payment_id)
  WHERE refund_id IS NULL AND status IN ('processing', 'needs_reconciliation');

CREATE INDEX payment_attempts_refund_idx ON waybill.payment_attempts (tenant_id, refund_id) WHERE refund_id IS NOT NULL;

SELECT waybill.make_tenant_table('waybill.payment_attempts', 'what was asked of a provider stays on record');

CREATE TRIGGER payment_attempts_10_identity BEFORE UPDATE ON waybill.payment_attempts FOR EACH ROW
  WHEN (OLD.settled_at IS NOT NULL
        OR (NEW.tenant_id, NEW.id, NEW.payment_id, NEW.refund_id, NEW.operation, NEW.provider_key, NEW.payment_method,
            NEW.amount, NEW.tax, NEW.started_at)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.payment_id, OLD.refund_id, OLD.operation, OLD.provider_key, OLD.payment_method,
            OLD.amount, OLD.tax, OLD.started_at))
  EXECUTE FUNCTION waybill.refuse_change('an attempt keeps what it asked for, and its result once there is one');


CREATE TABLE waybill.payment_webhook_events (
  tenant_id   bigint NOT NULL,
  provider    waybill.provider_name NOT NULL,
  event       waybill.provider_text NOT NULL,
  type        waybill.provider_text NOT NULL,
  payment_id  uuid,
  outcome     waybill.event_outcome NOT NULL,
  digest      waybill.bytes32 NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_webhook_events_pkey PRIMARY KEY (tenant_id, provider, event)
);

COMMENT ON COLUMN waybill.payment_webhook_events.digest IS
  'SHA-256 of the body. The body itself may hold personal data and can be read at the provider by its event id.';

SELECT waybill.make_tenant_table('waybill.payment_webhook_events', 'events of providers are kept as they came', 'UPDATE OR DELETE OR TRUNCATE');


CREATE TABLE waybill.payment_conflicts (
  tenant_id    bigint NOT NULL,
  provider     waybill.provider_name NOT NULL,
  event        waybill.provider_text NOT NULL,
  payment_id   uuid NOT NULL,
  problem      waybill.reason NOT NULL,
  refund_id    uuid,
  subject      waybill.fact_subject,
  fact         waybill.provider_fact,
  reference    waybill.provider_text,
  amount       bigint,
  decline_code waybill.decline_code,
  cause        waybill.refund_cause,
  noticed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  resolved_at  timestamptz,
  resolved_by  uuid,
  resolution   waybill.reason,
  CONSTRAINT payment_conflicts_pkey PRIMARY KEY (tenant_id, provider, event),
  CONSTRAINT payment_conflicts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT payment_conflicts_resolved CHECK ((resolved_at IS NULL) = (resolution IS NULL) AND (resolved_at IS NULL) = (resolved_by IS NULL))
);

COMMENT ON TABLE waybill.payment_conflicts IS
  'What a provider says of a payment and what can''t be so here: for a person to look at. subject and fact are null where the event could not be read.';

CREATE INDEX payment_conflicts_open_idx ON waybill.payment_conflicts (tenant_id, payment_id, noticed_at) WHERE resolved_at IS NULL;

SELECT waybill.make_tenant_table('waybill.payment_conflicts', 'what a provider said stays on record');
SELECT waybill.reference_user('waybill.payment_conflicts', 'resolved_by');

CREATE TRIGGER payment_conflicts_10_fixed BEFORE UPDATE ON waybill.payment_conflicts FOR EACH ROW
  WHEN (OLD.resolved_at IS NOT NULL
        OR (NEW.tenant_id, NEW.provider, NEW.event, NEW.payment_id, NEW.problem, NEW.refund_id, NEW.subject, NEW.fact, NEW.reference,
            NEW.amount, NEW.decline_code, NEW.cause, NEW.noticed_at)
        IS DISTINCT FROM (OLD.tenant_id, OLD.provider, OLD.event, OLD.payment_id, OLD.problem, OLD.refund_id, OLD.subject, OLD.fact,
            OLD.reference, OLD.amount, OLD.decline_code, OLD.cause, OLD.noticed_at))
  EXECUTE FUNCTION waybill.refuse_change('a conflict keeps what it is about, and its resolution once there is one');


CREATE SCHEMA payment_inbox;

CREATE TABLE payment_inbox.stray_events (
  provider    waybill.provider_name NOT NULL,
  event       waybill.provider_text NOT NULL,
  type        waybill.provider_text NOT NULL,
  digest      waybill.bytes32 NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT stray_events_pkey PRIMARY KEY (provider, event)
);

COMMENT ON TABLE payment_inbox.stray_events IS
  'Signed events that name no tenant of ours, such as of payments that somebody made at the provider by hand. Apart from what belongs to tenants.';

GRANT USAGE ON SCHEMA payment_inbox TO waybill_app;

GRANT SELECT, INSERT ON payment_inbox.stray_events TO waybill_app;

CREATE FUNCTION payment_inbox.tenant_of(p_provider text, p_payment_ref text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION payment_inbox.tenant_of IS
  'The tenant whose payment a provider calls by this name; null when there is none, or more than one.';

GRANT EXECUTE ON FUNCTION payment_inbox.tenant_of TO waybill_app;

CREATE TRIGGER stray_events_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_inbox.stray_events
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came');
