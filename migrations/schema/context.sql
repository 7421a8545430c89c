-- What the area context makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE SCHEMA waybill AUTHORIZATION waybill_owner;
GRANT USAGE ON SCHEMA waybill TO waybill_app;
GRANT USAGE ON SCHEMA waybill TO waybill_audit;
GRANT USAGE ON SCHEMA waybill TO waybill_sealer;

ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

CREATE DOMAIN waybill.bytes32 AS bytea;
ALTER DOMAIN waybill.bytes32 ADD CONSTRAINT bytes32_length CHECK ((octet_length(VALUE) = 32));
COMMENT ON DOMAIN waybill.bytes32 IS 'A salt, an Ed25519 public key, or a SHA-256.';

CREATE DOMAIN waybill.currency_code AS text COLLATE "C";
ALTER DOMAIN waybill.currency_code ADD CONSTRAINT currency_code_format CHECK (((length(VALUE) = 3) AND (VALUE ~ '^[A-Z]+$'::text)));

CREATE DOMAIN waybill."json_object" AS jsonb;
ALTER DOMAIN waybill."json_object" ADD CONSTRAINT json_object_type CHECK ((jsonb_typeof(VALUE) = 'object'::text));

CREATE DOMAIN waybill.minor_units AS bigint;
ALTER DOMAIN waybill.minor_units ADD CONSTRAINT minor_units_range CHECK (((VALUE >= 0) AND (VALUE <= '9007199254740991'::bigint)));
COMMENT ON DOMAIN waybill.minor_units IS 'An amount of money in the minor unit of its currency, not negative, below 2^53 so that JSON holds it exactly.';

CREATE DOMAIN waybill.reason AS waybill.visible_text;
ALTER DOMAIN waybill.reason ADD CONSTRAINT reason_length CHECK ((length((VALUE)::text) <= 500));

CREATE DOMAIN waybill.tax_rate_ppm AS bigint;
ALTER DOMAIN waybill.tax_rate_ppm ADD CONSTRAINT tax_rate_ppm_range CHECK (((VALUE >= 0) AND (VALUE <= 1000000)));
COMMENT ON DOMAIN waybill.tax_rate_ppm IS 'A tax rate in parts per million: 190000 is 19 %.';

CREATE DOMAIN waybill.visible_text AS text;
ALTER DOMAIN waybill.visible_text ADD CONSTRAINT visible_text_shows CHECK ((VALUE ~ '[^\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]'::text));
COMMENT ON DOMAIN waybill.visible_text IS 'Text that is not blank; see waybill.is_blank.';

CREATE OR REPLACE FUNCTION waybill.is_blank(p_text text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT p_text !~ '[^\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]'
$function$;
GRANT EXECUTE ON FUNCTION waybill.is_blank(text) TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.is_blank(text) TO waybill_audit;
GRANT EXECUTE ON FUNCTION waybill.is_blank(text) TO waybill_sealer;
COMMENT ON FUNCTION waybill.is_blank(text) IS 'Whether a text shows nothing: no character, or only white space, control characters and others that leave no mark.';

CREATE OR REPLACE FUNCTION waybill.is_reference(p_text text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT p_text !~ '^$|^ | $|[\u0001-\u001F\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]' AND p_text IS NFC NORMALIZED
         AND p_text NOT IN ('.', '..')
$function$;
GRANT EXECUTE ON FUNCTION waybill.is_reference(text) TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.is_reference(text) TO waybill_audit;
GRANT EXECUTE ON FUNCTION waybill.is_reference(text) TO waybill_sealer;
COMMENT ON FUNCTION waybill.is_reference(text) IS 'Whether a text can name something: no two that read the same are different (normalization form C, no white space but spaces inside, no character that leaves no mark), and each is a segment of an address (not . or ..).';

CREATE OR REPLACE FUNCTION waybill.json_time(p_at timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.json_time(timestamp with time zone) TO waybill_audit;
COMMENT ON FUNCTION waybill.json_time(timestamp with time zone) IS 'RFC 3339 in UTC, to the microsecond, as snapshots write times.';

CREATE OR REPLACE FUNCTION waybill.make_tenant_table(p_table regclass, p_why_not_deleted text, p_refused text DEFAULT 'DELETE OR TRUNCATE'::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format('CREATE POLICY %I ON %s
                    USING (tenant_id = nullif(current_setting(''waybill.tenant_id'', true), '''')::bigint)
                    WITH CHECK (tenant_id = nullif(current_setting(''waybill.tenant_id'', true), '''')::bigint)',
                 v_name || '_tenant', p_table);
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE OR DELETE ON %s
                    FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()', v_name || '_00_context', p_table);
  EXECUTE format('CREATE TRIGGER %I BEFORE %s ON %s FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change(%L)',
                 v_name || '_00_refused', p_refused, p_table, p_why_not_deleted);
  -- What may only grow refuses under session_replication_role = replica, too, which switches other triggers off.
  IF p_refused LIKE '%UPDATE%' THEN
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', p_table, v_name || '_00_refused');
  END IF;
  EXECUTE format('GRANT SELECT ON %s TO waybill_app', p_table);
END
$function$;
COMMENT ON FUNCTION waybill.make_tenant_table(regclass,text,text) IS 'Makes a table one of a tenant: its rows are seen by their tenant only, nobody writes without saying who acts, and p_refused (DELETE OR TRUNCATE; UPDATE OR DELETE OR TRUNCATE for what may only grow) is refused with the sentence that says why. The app role may read it. For migrations.';

CREATE OR REPLACE FUNCTION waybill.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'WB002';
END
$function$;
COMMENT ON FUNCTION waybill.refuse_change() IS 'Trigger function that refuses; its argument is the sentence that says why. What it refuses is said by the trigger.';

CREATE OR REPLACE FUNCTION waybill.refuse_row(p_constraint text, p_rule text, p_row text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RAISE EXCEPTION '% violates "%": %', p_row, p_constraint, p_rule
    USING ERRCODE = 'check_violation', CONSTRAINT = p_constraint;
END
$function$;
COMMENT ON FUNCTION waybill.refuse_row(text,text,text) IS 'Raises what a CHECK would raise, for a rule of several columns that a row guard asks.';

CREATE OR REPLACE FUNCTION waybill.refuse_unless_audit()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF current_user <> 'waybill_audit' THEN
    RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'WB002';
  END IF;
  RETURN NULL;
END
$function$;
COMMENT ON FUNCTION waybill.refuse_unless_audit() IS 'Trigger function that refuses everybody but functions of waybill_audit, as which nobody logs in; its argument says why.';

CREATE OR REPLACE FUNCTION waybill.refuse_writes(p_outcome text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM set_config('waybill.may_write', '', true);
  RETURN set_config('waybill.key_refused', p_outcome, true);
END
$function$;
COMMENT ON FUNCTION waybill.refuse_writes(text) IS 'Makes this transaction refuse every later write, since its idempotency key is not its to use. Returns its argument.';

CREATE OR REPLACE FUNCTION waybill.require_context()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF current_setting('waybill.may_write', true) = 'yes' THEN
    RETURN NULL;
  END IF;
  PERFORM waybill.require_key();
  RAISE EXCEPTION '% on %.% needs a tenant and an actor, and this transaction has none',
                  TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
    USING ERRCODE = 'WB001',
          HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, actor, roles, request_id);';
END
$function$;
COMMENT ON FUNCTION waybill.require_context() IS 'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH STATEMENT: refuses a transaction without tenant and actor, and one whose key was refused.';

CREATE OR REPLACE FUNCTION waybill.require_key()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF nullif(current_setting('waybill.key_refused', true), '') IS NOT NULL THEN
    RAISE EXCEPTION 'this transaction''s idempotency key is not its to use: %', current_setting('waybill.key_refused')
      USING ERRCODE = 'WB021', HINT = 'Roll back, and answer by what waybill.claim_key said.';
  END IF;
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.require_key() TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.require_key() TO waybill_audit;
GRANT EXECUTE ON FUNCTION waybill.require_key() TO waybill_sealer;
COMMENT ON FUNCTION waybill.require_key() IS 'Refuses where waybill.claim_key has refused the key of this transaction.';

CREATE OR REPLACE FUNCTION waybill.set_context(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text, p_key_digest text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM set_config('waybill.tenant_id', coalesce(p_tenant::text, ''), true),
          set_config('waybill.actor', coalesce(p_actor::text, ''), true),
          set_config('waybill.roles', coalesce(array_to_string(p_roles, ','), ''), true),
          set_config('waybill.request_id', coalesce(p_request_id, ''), true),
          set_config('waybill.key_digest', coalesce(p_key_digest, ''), true),
          set_config('waybill.may_write', CASE WHEN p_tenant IS NOT NULL AND p_actor IS NOT NULL THEN 'yes' ELSE '' END, true);
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.set_context(bigint,uuid,text[],text,text) TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.set_context(bigint,uuid,text[],text,text) TO waybill_sealer;
COMMENT ON FUNCTION waybill.set_context(bigint,uuid,text[],text,text) IS E'Says for the rest of this transaction which tenant it belongs to, who acts, with which roles, for which request, and under which idempotency key: hex(SHA-256("waybill-key/v1\\n" || int8be(tenant) || key)), which its events keep.';
