-- What the area simulated-provider makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE SCHEMA simulated_provider AUTHORIZATION waybill_owner;
GRANT USAGE ON SCHEMA simulated_provider TO waybill_app;

CREATE TABLE simulated_provider.intents (
  id text COLLATE "C" NOT NULL,
  token text NOT NULL,
  currency text NOT NULL,
  amount bigint NOT NULL,
  status text NOT NULL,
  captured bigint DEFAULT 0 NOT NULL,
  refunded bigint DEFAULT 0 NOT NULL,
  metadata jsonb NOT NULL
);
ALTER TABLE simulated_provider.intents ADD CONSTRAINT intents_pkey PRIMARY KEY (id);
ALTER TABLE simulated_provider.intents ADD CONSTRAINT intents_refunded_within_captured CHECK (((refunded <= captured) AND (captured <= amount)));
ALTER TABLE simulated_provider.intents ADD CONSTRAINT intents_status_check CHECK ((status = ANY (ARRAY['requires_capture'::text, 'succeeded'::text, 'canceled'::text])));
CREATE INDEX intents_key_idx ON simulated_provider.intents USING btree (((metadata ->> 'waybill_key'::text)));
GRANT SELECT ON simulated_provider.intents TO waybill_app;

CREATE TABLE simulated_provider.ledger (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  intent_id text COLLATE "C" NOT NULL,
  operation text NOT NULL,
  amount bigint NOT NULL,
  reference text COLLATE "C" NOT NULL,
  metadata jsonb NOT NULL,
  booked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE simulated_provider.ledger ADD CONSTRAINT ledger_intent_fkey FOREIGN KEY (intent_id) REFERENCES simulated_provider.intents(id);
ALTER TABLE simulated_provider.ledger ADD CONSTRAINT ledger_operation_check CHECK ((operation = ANY (ARRAY['authorize'::text, 'capture'::text, 'void'::text, 'refund'::text])));
ALTER TABLE simulated_provider.ledger ADD CONSTRAINT ledger_pkey PRIMARY KEY (id);
CREATE INDEX ledger_intent_idx ON simulated_provider.ledger USING btree (intent_id);
CREATE INDEX ledger_key_idx ON simulated_provider.ledger USING btree (((metadata ->> 'waybill_key'::text)));
CREATE TRIGGER ledger_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON simulated_provider.ledger FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('the ledger is append-only');
GRANT SELECT ON simulated_provider.ledger TO waybill_app;
COMMENT ON TABLE simulated_provider.ledger IS 'What was really done with customers'' money, one row each; append-only.';

CREATE TABLE simulated_provider.requests (
  idempotency_key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  arrivals integer DEFAULT 1 NOT NULL,
  answer jsonb,
  first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE simulated_provider.requests ADD CONSTRAINT requests_pkey PRIMARY KEY (idempotency_key);
GRANT SELECT ON simulated_provider.requests TO waybill_app;

CREATE TABLE simulated_provider.webhook_secret (
  only_one boolean DEFAULT true NOT NULL,
  secret text NOT NULL
);
ALTER TABLE simulated_provider.webhook_secret ADD CONSTRAINT webhook_secret_only_one CHECK (only_one);
ALTER TABLE simulated_provider.webhook_secret ADD CONSTRAINT webhook_secret_pkey PRIMARY KEY (only_one);
GRANT SELECT ON simulated_provider.webhook_secret TO waybill_app;

CREATE OR REPLACE FUNCTION simulated_provider.arrive(p_key text, p_fingerprint text)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_request simulated_provider.requests;
BEGIN
  INSERT INTO simulated_provider.requests AS r (idempotency_key, fingerprint) VALUES (p_key, p_fingerprint)
  ON CONFLICT (idempotency_key) DO UPDATE SET arrivals = r.arrivals + 1
  RETURNING * INTO v_request;
  IF v_request.fingerprint <> p_fingerprint THEN
    RAISE EXCEPTION 'key % was used for another request', p_key USING ERRCODE = 'SP001';
  END IF;
  RETURN v_request.arrivals;
END
$function$;
GRANT EXECUTE ON FUNCTION simulated_provider.arrive(text,text) TO waybill_app;
COMMENT ON FUNCTION simulated_provider.arrive(text,text) IS 'Counts a request under its key: 1 is the first one.';

CREATE OR REPLACE FUNCTION simulated_provider.perform(p_key text, p_operation text, p_intent text, p_token text, p_currency text, p_amount bigint, p_metadata jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_answer jsonb;
  v_intent simulated_provider.intents;
  v_id text := 'sim_' || replace(gen_random_uuid()::text, '-', '');
BEGIN
  SELECT r.answer INTO STRICT v_answer FROM simulated_provider.requests r WHERE r.idempotency_key = p_key FOR UPDATE;
  IF v_answer IS NOT NULL THEN
    RETURN v_answer;
  END IF;
  IF p_operation = 'authorize' THEN
    IF p_token LIKE 'tok_declined%' THEN
      v_answer := jsonb_build_object('refused', coalesce(nullif(substring(p_token FROM '^tok_declined_(.+)$'), ''), 'generic_decline'));
    ELSE
      INSERT INTO simulated_provider.intents (id, token, currency, amount, status, metadata)
      VALUES (v_id, p_token, p_currency, p_amount, 'requires_capture', p_metadata) RETURNING * INTO v_intent;
    END IF;
  ELSE
    SELECT i.* INTO v_intent FROM simulated_provider.intents i WHERE i.id = p_intent FOR UPDATE;
    v_answer := CASE
      WHEN v_intent.id IS NULL THEN '{"refused": "resource_missing"}'
      WHEN v_intent.token = 'tok_' || p_operation || '_declined' THEN '{"refused": "generic_decline"}'
      WHEN p_operation IN ('capture', 'void') AND v_intent.status <> 'requires_capture' THEN '{"refused": "unexpected_state"}'
      WHEN p_operation = 'capture' AND p_amount > v_intent.amount THEN '{"refused": "amount_too_large"}'
      WHEN p_operation = 'refund' AND p_amount > v_intent.captured - v_intent.refunded THEN '{"refused": "amount_too_large"}'
      END;
    IF v_answer IS NULL THEN
      UPDATE simulated_provider.intents i
      SET status = CASE p_operation WHEN 'capture' THEN 'succeeded' WHEN 'void' THEN 'canceled' ELSE i.status END,
          captured = i.captured + CASE p_operation WHEN 'capture' THEN p_amount ELSE 0 END,
          refunded = i.refunded + CASE p_operation WHEN 'refund' THEN p_amount ELSE 0 END
      WHERE i.id = p_intent;
    END IF;
  END IF;
  IF v_answer IS NULL THEN
    -- As with real ones, a refund has an id of its own, and everything else is the intent's.
    v_answer := jsonb_build_object('reference', CASE p_operation WHEN 'refund' THEN v_id ELSE v_intent.id END, 'amount', p_amount);
    INSERT INTO simulated_provider.ledger (intent_id, operation, amount, reference, metadata)
    VALUES (v_intent.id, p_operation, p_amount, v_answer ->> 'reference', p_metadata);
  END IF;
  UPDATE simulated_provider.requests r SET answer = v_answer WHERE r.idempotency_key = p_key;
  RETURN v_answer;
END
$function$;
GRANT EXECUTE ON FUNCTION simulated_provider.perform(text,text,text,text,text,bigint,jsonb) TO waybill_app;
COMMENT ON FUNCTION simulated_provider.perform(text,text,text,text,text,bigint,jsonb) IS 'Does what a request asks for and books it, once for each key; the same key gives the same answer again.';
