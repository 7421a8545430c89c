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

RESET ROLE;
