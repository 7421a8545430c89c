CREATE FUNCTION waybill.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'WB002';
END
$$;

COMMENT ON FUNCTION waybill.refuse_change IS
  'Trigger function that refuses; its argument is the sentence that says why. What it refuses is said by the trigger.';

CREATE FUNCTION waybill.refuse_unless_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_user <> 'waybill_audit' THEN
    RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'WB002';
  END IF;
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION waybill.refuse_unless_audit IS
  'Trigger function that refuses everybody but functions of waybill_audit, as which nobody logs in; its argument says why.';

CREATE FUNCTION waybill.refuse_row(p_constraint text, p_rule text, p_row text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% violates "%": %', p_row, p_constraint, p_rule
    USING ERRCODE = 'check_violation', CONSTRAINT = p_constraint;
END
$$;

COMMENT ON FUNCTION waybill.refuse_row IS
  'Raises what a CHECK would raise, for a rule of several columns that a row guard asks.';

CREATE FUNCTION waybill.make_tenant_table(p_table regclass, p_why_not_deleted text, p_refused text DEFAULT 'DELETE OR TRUNCATE')
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.make_tenant_table IS
  'Makes a table one of a tenant: its rows are seen by their tenant only, nobody writes without saying who acts, and p_refused (DELETE OR TRUNCATE; UPDATE OR DELETE OR TRUNCATE for what may only grow) is refused with the sentence that says why. The app role may read it. For migrations.';
