CREATE FUNCTION waybill.set_context(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('waybill.tenant_id', coalesce(p_tenant::text, ''), true),
          set_config('waybill.actor', coalesce(p_actor::text, ''), true),
          set_config('waybill.roles', coalesce(array_to_string(p_roles, ','), ''), true),
          set_config('waybill.request_id', coalesce(p_request_id, ''), true);
END
$$;

COMMENT ON FUNCTION waybill.set_context IS
  'Says for the rest of this transaction which tenant it belongs to, who acts, with which roles, and for which request.';

CREATE FUNCTION waybill.refuse_writes(p_outcome text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN set_config('waybill.key_refused', p_outcome, true);
END
$$;

COMMENT ON FUNCTION waybill.refuse_writes IS
  'Makes this transaction refuse every later write, since its idempotency key is not its to use. Returns its argument.';

CREATE FUNCTION waybill.require_key() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF nullif(current_setting('waybill.key_refused', true), '') IS NOT NULL THEN
    RAISE EXCEPTION 'this transaction''s idempotency key is not its to use: %', current_setting('waybill.key_refused')
      USING ERRCODE = 'WB021', HINT = 'Roll back, and answer by what waybill.claim_key said.';
  END IF;
END
$$;

CREATE FUNCTION waybill.require_context() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

GRANT EXECUTE ON FUNCTION waybill.set_context TO waybill_app, waybill_sealer;

GRANT EXECUTE ON FUNCTION waybill.require_key TO waybill_app, waybill_sealer, waybill_audit;
