CREATE FUNCTION waybill.set_context(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text, p_key_digest text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('waybill.tenant_id', coalesce(p_tenant::text, ''), true),
          set_config('waybill.actor', coalesce(p_actor::text, ''), true),
          set_config('waybill.roles', coalesce(array_to_string(p_roles, ','), ''), true),
          set_config('waybill.request_id', coalesce(p_request_id, ''), true),
          set_config('waybill.key_digest', coalesce(p_key_digest, ''), true),
          set_config('waybill.may_write', CASE WHEN p_tenant IS NOT NULL AND p_actor IS NOT NULL THEN 'yes' ELSE '' END, true);
END
$$;

COMMENT ON FUNCTION waybill.set_context IS
  'Says for the rest of this transaction which tenant it belongs to, who acts, with which roles, for which request, and under which idempotency key: hex(SHA-256("waybill-key/v1\n" || int8be(tenant) || key)), which its events keep.';

GRANT EXECUTE ON FUNCTION waybill.set_context TO waybill_app, waybill_sealer;

CREATE FUNCTION waybill.refuse_writes(p_outcome text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('waybill.may_write', '', true);
  RETURN set_config('waybill.key_refused', p_outcome, true);
END
$$;

COMMENT ON FUNCTION waybill.refuse_writes IS
  'Makes this transaction refuse every later write, since its idempotency key is not its to use. Returns its argument.';

-- A statement may travel in the same packet as the claim of its key, before anybody knows what the claim says. Where
-- the key is not for this request, the transaction must write nothing and wait for no lock.
CREATE FUNCTION waybill.require_key() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF nullif(current_setting('waybill.key_refused', true), '') IS NOT NULL THEN
    RAISE EXCEPTION 'this transaction''s idempotency key is not its to use: %', current_setting('waybill.key_refused')
      USING ERRCODE = 'WB021', HINT = 'Roll back, and answer by what waybill.claim_key said.';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.require_key IS
  'Refuses where waybill.claim_key has refused the key of this transaction.';

GRANT EXECUTE ON FUNCTION waybill.require_key TO waybill_app, waybill_sealer, waybill_audit;

CREATE FUNCTION waybill.require_context() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.require_context IS
  'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH STATEMENT: refuses a transaction without tenant and actor, and one whose key was refused.';
