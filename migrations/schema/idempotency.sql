-- What the area idempotency makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE DOMAIN waybill.idempotency_key AS text COLLATE "C";
ALTER DOMAIN waybill.idempotency_key ADD CONSTRAINT idempotency_key_format CHECK (((length(VALUE) <= 255) AND (VALUE ~ '^[\x21-\x2b\x2d-\x7e]+$'::text)));

CREATE DOMAIN waybill.key_status AS text COLLATE "C";
ALTER DOMAIN waybill.key_status ADD CONSTRAINT key_status_check CHECK ((VALUE = ANY (ARRAY['processing'::text, 'completed'::text, 'failed'::text])));

CREATE TABLE waybill.idempotency_keys (
  tenant_id bigint NOT NULL,
  idempotency_key waybill.idempotency_key NOT NULL,
  request_hash waybill.bytes32 NOT NULL,
  status waybill.key_status NOT NULL,
  lease_token uuid,
  lease_until timestamp with time zone,
  attempt integer DEFAULT 1 NOT NULL,
  call_started_at timestamp with time zone,
  provider_ref text,
  resource text COLLATE "C",
  response_status smallint,
  response_headers waybill."json_object",
  response_body bytea,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone
);
ALTER TABLE waybill.idempotency_keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.idempotency_keys ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, idempotency_key);
CREATE INDEX idempotency_keys_expires_idx ON waybill.idempotency_keys USING btree (tenant_id, expires_at) WHERE ((status)::text <> 'processing'::text);
CREATE INDEX idempotency_keys_leases_idx ON waybill.idempotency_keys USING btree (tenant_id, lease_until) WHERE (lease_token IS NOT NULL);
CREATE POLICY idempotency_keys_tenant ON waybill.idempotency_keys FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER idempotency_keys_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER idempotency_keys_00_refused BEFORE TRUNCATE ON waybill.idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('without its keys a retry would do everything twice');
CREATE TRIGGER idempotency_keys_20_guard BEFORE INSERT OR DELETE OR UPDATE ON waybill.idempotency_keys FOR EACH ROW EXECUTE FUNCTION waybill.guard_idempotency_key();
GRANT SELECT ON waybill.idempotency_keys TO waybill_app;
COMMENT ON COLUMN waybill.idempotency_keys.lease_until IS 'While a worker is away on a call to another system the key is its own until then; afterwards another may take it over.';
COMMENT ON COLUMN waybill.idempotency_keys.resource IS 'What the answer shows, such as order/<id>: erasing a person blanks the answers that show their orders.';
COMMENT ON COLUMN waybill.idempotency_keys.response_body IS 'The bytes as they were sent; empty for an answer without a body, null once they were erased.';
COMMENT ON TABLE waybill.idempotency_keys IS 'What was answered under an Idempotency-Key. A row of a request whose effects are all in this database is never seen as processing: key, effect and answer are committed together.';

CREATE TABLE waybill.idempotency_policies (
  tenant_id bigint NOT NULL,
  ttl interval,
  is_default boolean DEFAULT false NOT NULL,
  id uuid DEFAULT gen_random_uuid() NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE waybill.idempotency_policies ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.idempotency_policies ADD CONSTRAINT idempotency_policies_default CHECK (((NOT is_default) OR (ttl IS NULL)));
ALTER TABLE waybill.idempotency_policies ADD CONSTRAINT idempotency_policies_pkey PRIMARY KEY (tenant_id);
ALTER TABLE waybill.idempotency_policies ADD CONSTRAINT idempotency_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants(id);
ALTER TABLE waybill.idempotency_policies ADD CONSTRAINT idempotency_policies_ttl_positive CHECK ((ttl > '00:00:00'::interval));
CREATE POLICY idempotency_policies_tenant ON waybill.idempotency_policies FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER idempotency_policies_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.idempotency_policies FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER idempotency_policies_00_refused BEFORE DELETE OR TRUNCATE ON waybill.idempotency_policies FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('set is_default instead: its history refers to this row');
CREATE TRIGGER idempotency_policies_20_version_insert BEFORE INSERT ON waybill.idempotency_policies FOR EACH ROW EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER idempotency_policies_20_version_update BEFORE UPDATE ON waybill.idempotency_policies FOR EACH ROW WHEN (((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.ttl IS DISTINCT FROM old.ttl)) OR (new.is_default IS DISTINCT FROM old.is_default)) OR (new.id IS DISTINCT FROM old.id)) OR (new.version IS DISTINCT FROM old.version)) OR (new.updated_at IS DISTINCT FROM old.updated_at))) EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER idempotency_policies_50_record AFTER INSERT OR UPDATE ON waybill.idempotency_policies FOR EACH ROW EXECUTE FUNCTION audit.record_idempotency_policy();
GRANT SELECT ON waybill.idempotency_policies TO waybill_app;
GRANT SELECT ON waybill.idempotency_policies TO waybill_audit;
COMMENT ON TABLE waybill.idempotency_policies IS 'How long a tenant''s keys are remembered, counted from the answer; null is for ever. A tenant without a row, or with is_default, has the service''s IDEMPOTENCY_TTL.';

CREATE OR REPLACE FUNCTION audit.record_idempotency_policy()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "TimeZone" TO 'UTC'
AS $function$
DECLARE
  v_type text := 'created';
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.version = OLD.version THEN
      RETURN NULL;
    END IF;
    v_type := 'updated';
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record('idempotency_policies', 'idempotency_policy/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'idempotency_policy.' || v_type, NULL, NULL, waybill.idempotency_policy_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_idempotency_policy() TO waybill_owner;
COMMENT ON FUNCTION audit.record_idempotency_policy() IS 'Made by audit.create_recorder: appends an event for each version of an entity.';

CREATE OR REPLACE FUNCTION waybill.claim_key(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text, p_key text, p_hash bytea, p_lease_token uuid, p_lease interval, p_key_digest text DEFAULT NULL::text, OUT outcome text, OUT retry_after integer, OUT claimed_at timestamp with time zone, OUT answer_status smallint, OUT answer_headers jsonb, OUT answer_body bytea)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_key waybill.idempotency_keys;
  v_locked boolean;
  v_now timestamptz := clock_timestamp();
BEGIN
  PERFORM waybill.set_context(p_tenant, p_actor, p_roles, p_request_id, p_key_digest);
  v_locked := pg_try_advisory_xact_lock(hashtextextended(p_key, p_tenant));
  PERFORM set_config('waybill.locked_key', CASE WHEN v_locked THEN p_key ELSE '' END, true);
  LOOP
    -- A statement of its own has a snapshot of its own: with the lock it sees whatever its last holder has committed.
    SELECT k.* INTO v_key FROM waybill.idempotency_keys k WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key;
    IF NOT FOUND THEN
      IF NOT v_locked THEN
        outcome := waybill.refuse_writes('in_flight');
        RETURN;
      END IF;
      -- Without a lease the row is written once, by complete_key: nobody else can have the key before this transaction ends.
      IF p_lease_token IS NOT NULL THEN
        INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, lease_token, lease_until, created_at)
        VALUES (p_tenant, p_key, p_hash, 'processing', p_lease_token, v_now + p_lease, v_now);
      END IF;
      outcome := 'claimed';
      RETURN;
    END IF;

    IF v_key.expires_at <= v_now THEN
      IF NOT v_locked THEN
        outcome := waybill.refuse_writes('in_flight');
        RETURN;
      END IF;
      DELETE FROM waybill.idempotency_keys k
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.expires_at <= v_now;
      CONTINUE;
    END IF;

    IF v_key.request_hash <> p_hash THEN
      outcome := waybill.refuse_writes('reused');
      RETURN;
    END IF;

    IF v_key.status = 'processing' THEN
      -- Whoever has a lease may be away on a call, so only a caller who brings a lease may take over from it.
      IF NOT v_locked OR v_key.lease_until > v_now OR (v_key.lease_token IS NOT NULL AND p_lease_token IS NULL) THEN
        outcome := waybill.refuse_writes('in_flight');
        retry_after := greatest(1, ceil(extract(epoch FROM v_key.lease_until - v_now)));
        RETURN;
      END IF;
      UPDATE waybill.idempotency_keys k
      SET lease_token = p_lease_token, lease_until = v_now + p_lease, attempt = k.attempt + 1
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
        AND k.lease_token IS NOT DISTINCT FROM v_key.lease_token AND k.lease_until IS NOT DISTINCT FROM v_key.lease_until;
      CONTINUE WHEN NOT FOUND; -- its worker finished after all
      outcome := CASE WHEN v_key.lease_token IS NULL THEN 'claimed' ELSE 'taken_over' END;
      RETURN;
    END IF;

    outcome := waybill.refuse_writes(CASE WHEN v_key.response_body IS NULL THEN 'erased' ELSE 'replay' END);
    claimed_at := v_key.created_at;
    answer_status := v_key.response_status;
    answer_headers := v_key.response_headers;
    answer_body := v_key.response_body;
    RETURN;
  END LOOP;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.claim_key(bigint,uuid,text[],text,text,bytea,uuid,interval,text) TO waybill_app;
COMMENT ON FUNCTION waybill.claim_key(bigint,uuid,text[],text,text,bytea,uuid,interval,text) IS 'Sets the context and claims a key for this transaction. outcome: claimed, taken_over (from a lapsed lease), replay (with the answer), reused, in_flight, erased. A lease is given for work that goes on after COMMIT.';

CREATE OR REPLACE FUNCTION waybill.complete_key(p_tenant bigint, p_key text, p_hash bytea, p_lease_token uuid, p_status smallint, p_headers jsonb, p_body bytea, p_resource text, p_default_ttl interval)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_status text := CASE WHEN p_status < 300 THEN 'completed' ELSE 'failed' END;
  v_now timestamptz := clock_timestamp();
  v_expires_at timestamptz;
BEGIN
  SELECT coalesce(v_now + p.ttl, 'infinity') INTO v_expires_at FROM waybill.idempotency_policies p
  WHERE p.tenant_id = p_tenant AND NOT p.is_default;
  IF NOT FOUND THEN
    v_expires_at := coalesce(v_now + p_default_ttl, 'infinity');
  END IF;
  IF p_lease_token IS NULL THEN
    -- Nothing, where the transaction that claimed the key was another one.
    INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, response_status,
                                          response_headers, response_body, resource, created_at, expires_at)
    SELECT p_tenant, p_key, p_hash, v_status, p_status, p_headers, p_body, p_resource, now(), v_expires_at
    WHERE current_setting('waybill.locked_key', true) = p_key;
  ELSE
    UPDATE waybill.idempotency_keys k
    SET status = v_status, lease_token = NULL, lease_until = NULL, response_status = p_status,
        response_headers = p_headers, response_body = p_body, resource = p_resource, expires_at = v_expires_at
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
      AND k.lease_token = p_lease_token;
  END IF;
  IF NOT FOUND THEN
    -- An error, so that the COMMIT behind it becomes a ROLLBACK of everything else, too.
    RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
  END IF;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.complete_key(bigint,text,bytea,uuid,smallint,jsonb,bytea,text,interval) TO waybill_app;
COMMENT ON FUNCTION waybill.complete_key(bigint,text,bytea,uuid,smallint,jsonb,bytea,text,interval) IS 'Stores the answer under a key that this transaction has claimed (by the request''s hash) or that its worker holds (by the lease). The default time to live is for tenants without a policy; null is for ever.';

CREATE OR REPLACE FUNCTION waybill.erase_answers(p_tenant bigint, p_resources text[])
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_erased int;
BEGIN
  UPDATE waybill.idempotency_keys k SET response_body = NULL
  WHERE k.tenant_id = p_tenant AND k.resource = ANY (p_resources) AND k.response_body IS NOT NULL;
  GET DIAGNOSTICS v_erased = ROW_COUNT;
  RETURN v_erased;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.erase_answers(bigint,text[]) TO waybill_app;
COMMENT ON FUNCTION waybill.erase_answers(bigint,text[]) IS 'Blanks every stored answer that shows one of these resources (order/<id>). Belongs into the transaction that erases the person; one pass over the tenant''s keys, however many resources.';

CREATE OR REPLACE FUNCTION waybill.guard_idempotency_key()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.status = 'processing' OR OLD.expires_at > clock_timestamp() THEN
      RAISE EXCEPTION 'DELETE on waybill.idempotency_keys is refused: only finished keys that have expired are swept'
        USING ERRCODE = 'WB002';
    END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.tenant_id, NEW.idempotency_key) IS DISTINCT FROM (OLD.tenant_id, OLD.idempotency_key) THEN
      RAISE EXCEPTION 'UPDATE on waybill.idempotency_keys is refused: a key stays with its tenant' USING ERRCODE = 'WB002';
    END IF;
  END IF;
  -- The rules as a new answered key keeps them, which is nearly every row; any other is asked rule by rule.
  IF TG_OP = 'INSERT' AND NEW.lease_token IS NULL AND NEW.lease_until IS NULL AND NEW.response_headers IS NOT NULL
     AND NEW.expires_at IS NOT NULL AND NEW.attempt = 1
     AND ((NEW.status = 'completed' AND NEW.response_status / 100 = 2) OR (NEW.status = 'failed' AND NEW.response_status / 100 = 4)) THEN
    RETURN NEW;
  END IF;
  PERFORM waybill.refuse_idempotency_key(NEW);
  RETURN NEW;
END
$function$;
COMMENT ON FUNCTION waybill.guard_idempotency_key() IS 'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH ROW of keys: rules of several columns; a key stays with its tenant, and goes only when it has expired.';

CREATE OR REPLACE FUNCTION waybill.idempotency_policy_snapshot(p waybill.idempotency_policies)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object('id', p.id, 'isDefault', p.is_default, 'ttlSeconds', extract(epoch FROM p.ttl)::bigint,
                           'version', p.version, 'updatedAt', waybill.json_time(p.updated_at));
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.idempotency_policy_snapshot(waybill.idempotency_policies) TO waybill_audit;
COMMENT ON FUNCTION waybill.idempotency_policy_snapshot(waybill.idempotency_policies) IS 'How long keys are remembered, as events keep it: ttlSeconds null with isDefault false is for ever.';

CREATE OR REPLACE FUNCTION waybill.put_back_key(p_tenant bigint, p_key text, p_lease_token uuid, p_wait interval)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  UPDATE waybill.idempotency_keys k SET lease_until = clock_timestamp() + p_wait
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token
$function$;
GRANT EXECUTE ON FUNCTION waybill.put_back_key(bigint,text,uuid,interval) TO waybill_app;
COMMENT ON FUNCTION waybill.put_back_key(bigint,text,uuid,interval) IS 'Ends a lease early, for a call whose result is not known yet: after the wait a retry or the recoverer takes over.';

CREATE OR REPLACE FUNCTION waybill.refuse_idempotency_key(k waybill.idempotency_keys)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF (k.lease_token IS NULL) <> (k.lease_until IS NULL) THEN
    PERFORM waybill.refuse_row('idempotency_keys_lease_whole', 'a lease has a token and an end, or there is none', k::text);
  ELSIF k.attempt < 1 THEN
    PERFORM waybill.refuse_row('idempotency_keys_attempt_positive', 'attempts count from 1', k::text);
  ELSIF k.status = 'processing' THEN
    IF num_nonnulls(k.response_status, k.response_headers, k.response_body, k.expires_at) > 0 THEN
      PERFORM waybill.refuse_row('idempotency_keys_answer_final', 'a key that is in use has no answer yet', k::text);
    ELSIF k.call_started_at IS NOT NULL AND k.lease_token IS NULL THEN
      PERFORM waybill.refuse_row('idempotency_keys_call_leased', 'whoever makes a call has a lease', k::text);
    END IF;
  ELSIF k.lease_token IS NOT NULL THEN
    PERFORM waybill.refuse_row('idempotency_keys_lease_processing', 'an answered key has no lease', k::text);
  ELSIF num_nulls(k.response_status, k.response_headers, k.expires_at) > 0 THEN
    PERFORM waybill.refuse_row('idempotency_keys_answer_final', 'an answered key has status, headers and an end', k::text);
  ELSIF (k.status = 'completed') <> (k.response_status / 100 = 2) OR (k.status = 'failed') <> (k.response_status / 100 = 4) THEN
    PERFORM waybill.refuse_row('idempotency_keys_answer_kind', 'completed is answered by 2xx, failed by 4xx', k::text);
  END IF;
END
$function$;
COMMENT ON FUNCTION waybill.refuse_idempotency_key(waybill.idempotency_keys) IS 'Refuses a key by the first rule of several columns that it breaks.';

CREATE OR REPLACE FUNCTION waybill.start_call(p_tenant bigint, p_key text, p_lease_token uuid, p_resource text, p_provider_ref text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE waybill.idempotency_keys k
  SET call_started_at = clock_timestamp(), resource = p_resource, provider_ref = p_provider_ref
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
  END IF;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.start_call(bigint,text,uuid,text,text) TO waybill_app;
COMMENT ON FUNCTION waybill.start_call(bigint,text,uuid,text,text) IS 'Puts on record, in the transaction that claimed the key, that a call is about to be made: of what, and under which name the other system knows it.';

CREATE OR REPLACE FUNCTION waybill.sweep_keys(p_tenant bigint, p_limit integer, OUT swept integer, OUT backlog integer)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('waybill.sweep_keys'), hashint8(p_tenant)) THEN
    RETURN; -- another process sweeps this tenant
  END IF;
  PERFORM waybill.set_context(p_tenant, NULL, ARRAY['system'], 'sweep_keys');
  PERFORM waybill.set_context(p_tenant, waybill.system_user(p_tenant), ARRAY['system'], 'sweep_keys');
  -- Materialized: as a plain subquery it may run more than once within a join, and take more than a batch.
  WITH expired AS MATERIALIZED (
    SELECT e.idempotency_key FROM waybill.idempotency_keys e
    WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
    ORDER BY e.expires_at LIMIT least(p_limit, 10000) FOR UPDATE SKIP LOCKED
  )
  DELETE FROM waybill.idempotency_keys k USING expired
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = expired.idempotency_key;
  GET DIAGNOSTICS swept = ROW_COUNT;
  SELECT count(*) INTO backlog FROM (
    SELECT FROM waybill.idempotency_keys e WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
    LIMIT 100000) rest;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.sweep_keys(bigint,integer) TO waybill_app;
COMMENT ON FUNCTION waybill.sweep_keys(bigint,integer) IS 'Removes one batch of a tenant''s expired keys, oldest first, as the tenant''s system user. swept is null when another process is at it; backlog counts at most 100000.';

CREATE OR REPLACE FUNCTION waybill.take_abandoned_key(p_tenant bigint, p_lease_token uuid, p_lease interval, OUT key text, OUT resource text, OUT provider_ref text, OUT call_started_at timestamp with time zone, OUT attempt integer)
 RETURNS record
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  UPDATE waybill.idempotency_keys k
  SET lease_token = p_lease_token, lease_until = clock_timestamp() + p_lease, attempt = k.attempt + 1
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = (
    SELECT e.idempotency_key FROM waybill.idempotency_keys e
    WHERE e.tenant_id = p_tenant AND e.lease_token IS NOT NULL AND e.lease_until <= statement_timestamp()
      AND e.call_started_at IS NOT NULL
    ORDER BY e.lease_until LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING k.idempotency_key, k.resource, k.provider_ref, k.call_started_at, k.attempt
$function$;
GRANT EXECUTE ON FUNCTION waybill.take_abandoned_key(bigint,uuid,interval) TO waybill_app;
COMMENT ON FUNCTION waybill.take_abandoned_key(bigint,uuid,interval) IS 'Takes over one key whose lease has lapsed while its call was under way; nulls when there is none. Workers don''t wait for each other.';
