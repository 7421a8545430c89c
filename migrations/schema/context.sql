-- What the area context makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE SCHEMA waybill AUTHORIZATION waybill_owner;
GRANT USAGE ON SCHEMA waybill TO waybill_app;
GRANT USAGE ON SCHEMA waybill TO waybill_audit;
GRANT USAGE ON SCHEMA waybill TO waybill_sealer;

ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

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

CREATE OR REPLACE FUNCTION waybill.refuse_writes(p_outcome text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
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
  IF nullif(current_setting('waybill.tenant_id', true), '') IS NULL
     OR nullif(current_setting('waybill.actor', true), '') IS NULL THEN
    RAISE EXCEPTION '% on %.% needs a tenant and an actor, and this transaction has none',
                    TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
      USING ERRCODE = 'WB001',
            HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, actor, roles, request_id);';
  END IF;
  PERFORM waybill.require_key();
  RETURN NULL;
END
$function$;

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

CREATE OR REPLACE FUNCTION waybill.set_context(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM set_config('waybill.tenant_id', coalesce(p_tenant::text, ''), true),
          set_config('waybill.actor', coalesce(p_actor::text, ''), true),
          set_config('waybill.roles', coalesce(array_to_string(p_roles, ','), ''), true),
          set_config('waybill.request_id', coalesce(p_request_id, ''), true);
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.set_context(bigint,uuid,text[],text) TO waybill_app;
GRANT EXECUTE ON FUNCTION waybill.set_context(bigint,uuid,text[],text) TO waybill_sealer;
COMMENT ON FUNCTION waybill.set_context(bigint,uuid,text[],text) IS 'Says for the rest of this transaction which tenant it belongs to, who acts, with which roles, and for which request.';
