DO $$
BEGIN
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'The database must be encoded in UTF8: event hashes are over UTF-8 bytes';
  END IF;
END
$$;

CREATE SCHEMA audit AUTHORIZATION waybill_audit;

SET LOCAL ROLE waybill_audit;

ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

GRANT USAGE ON SCHEMA audit TO waybill_owner, waybill_app, waybill_sealer;

CREATE FUNCTION audit.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on %.% is refused: it is append-only', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
    USING ERRCODE = 'WB002';
END
$$;

CREATE FUNCTION audit.make_append_only(p_table regclass, p_refused text DEFAULT 'UPDATE OR DELETE OR TRUNCATE') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format('CREATE POLICY %I ON %s FOR SELECT
                    USING (tenant_id = nullif(current_setting(''waybill.tenant_id'', true), '''')::bigint)',
                 v_name || '_tenant', p_table);
  EXECUTE format('CREATE TRIGGER %I BEFORE %s ON %s FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change()',
                 v_name || '_00_append_only', p_refused, p_table);
  EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', p_table, v_name || '_00_append_only');
  EXECUTE format('GRANT SELECT ON %s TO waybill_owner, waybill_app, waybill_sealer', p_table);
END
$$;

COMMENT ON FUNCTION audit.make_append_only IS
  'Makes a table of schema audit one that tenants read their own rows of and nobody changes, even under session_replication_role = replica. For migrations.';

CREATE FUNCTION audit.make_sealers(p_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
BEGIN
  EXECUTE format('CREATE POLICY %I ON %s TO waybill_sealer USING (true) WITH CHECK (true)', v_name || '_seal', p_table);
  EXECUTE format('GRANT INSERT ON %s TO waybill_sealer', p_table);
END
$$;

COMMENT ON FUNCTION audit.make_sealers IS 'Lets the sealer read a table for all tenants and add to it. For migrations.';

RESET ROLE;
