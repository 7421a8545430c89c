DO $$
BEGIN
  IF (SELECT count(*) FROM pg_catalog.pg_roles
      WHERE rolname IN ('waybill_owner', 'waybill_audit', 'waybill_app', 'waybill_sealer')) < 4 THEN
    RAISE EXCEPTION 'The roles of Waybill are missing'
      USING HINT = 'Run migrations/bootstrap.sql once as an administrator of this server.';
  END IF;
  IF current_user <> 'waybill_owner' THEN
    RAISE EXCEPTION 'Migrations run as waybill_owner, not as %', current_user
      USING HINT = 'Set MIGRATION_DATABASE_URL to the address of waybill_owner.';
  END IF;
END
$$;

CREATE SCHEMA waybill;

GRANT USAGE ON SCHEMA waybill TO waybill_app, waybill_audit, waybill_sealer;

-- Functions are executable by PUBLIC unless this default is gone; it must be gone before the first function.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
