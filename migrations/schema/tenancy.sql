-- What the area tenancy makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE TRIGGER api_keys_20_version_insert BEFORE INSERT ON waybill.api_keys FOR EACH ROW EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER api_keys_20_version_update BEFORE UPDATE ON waybill.api_keys FOR EACH ROW WHEN ((((((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.user_id IS DISTINCT FROM old.user_id)) OR (new.prefix IS DISTINCT FROM old.prefix)) OR ((new.hash)::bytea IS DISTINCT FROM (old.hash)::bytea)) OR (new.created_at IS DISTINCT FROM old.created_at)) OR (new.expires_at IS DISTINCT FROM old.expires_at)) OR (new.revoked_at IS DISTINCT FROM old.revoked_at)) OR (new.name IS DISTINCT FROM old.name)) OR (new.version IS DISTINCT FROM old.version)) OR (new.updated_at IS DISTINCT FROM old.updated_at))) EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER api_keys_50_record AFTER INSERT OR UPDATE ON waybill.api_keys FOR EACH ROW EXECUTE FUNCTION audit.record_api_key();
GRANT SELECT ON waybill.api_keys TO waybill_audit;

CREATE TABLE waybill.log_policies (
  tenant_id bigint NOT NULL,
  is_public boolean NOT NULL,
  id uuid DEFAULT gen_random_uuid() NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE waybill.log_policies ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE waybill.log_policies ADD CONSTRAINT log_policies_pkey PRIMARY KEY (tenant_id);
ALTER TABLE waybill.log_policies ADD CONSTRAINT log_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants(id);
CREATE POLICY log_policies_tenant ON waybill.log_policies FOR ALL TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)) WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER log_policies_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.log_policies FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER log_policies_00_refused BEFORE DELETE OR TRUNCATE ON waybill.log_policies FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('set is_public to false instead');
CREATE TRIGGER log_policies_20_version_insert BEFORE INSERT ON waybill.log_policies FOR EACH ROW EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER log_policies_20_version_update BEFORE UPDATE ON waybill.log_policies FOR EACH ROW WHEN ((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.is_public IS DISTINCT FROM old.is_public)) OR (new.id IS DISTINCT FROM old.id)) OR (new.version IS DISTINCT FROM old.version)) OR (new.updated_at IS DISTINCT FROM old.updated_at))) EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER log_policies_50_record AFTER INSERT OR UPDATE ON waybill.log_policies FOR EACH ROW EXECUTE FUNCTION audit.record_log_policy();
GRANT SELECT ON waybill.log_policies TO waybill_app;
GRANT SELECT ON waybill.log_policies TO waybill_audit;
COMMENT ON TABLE waybill.log_policies IS 'Whether anybody may read checkpoint and hashes of a tenant''s log, without credentials. A tenant without a row keeps them to itself.';

CREATE TRIGGER users_20_version_insert BEFORE INSERT ON waybill.users FOR EACH ROW EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER users_20_version_update BEFORE UPDATE ON waybill.users FOR EACH ROW WHEN ((((((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.subject IS DISTINCT FROM old.subject)) OR (new.kind IS DISTINCT FROM old.kind)) OR (new.display_name IS DISTINCT FROM old.display_name)) OR (new.roles IS DISTINCT FROM old.roles)) OR (new.created_at IS DISTINCT FROM old.created_at)) OR (new.disabled_at IS DISTINCT FROM old.disabled_at)) OR (new.version IS DISTINCT FROM old.version)) OR (new.updated_at IS DISTINCT FROM old.updated_at)) OR ((new.salt)::bytea IS DISTINCT FROM (old.salt)::bytea))) EXECUTE FUNCTION waybill.guard_version();
CREATE TRIGGER users_50_record AFTER INSERT OR UPDATE ON waybill.users FOR EACH ROW EXECUTE FUNCTION audit.record_user();
GRANT SELECT ON waybill.users TO waybill_audit;

CREATE OR REPLACE FUNCTION audit.record_api_key()
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
    v_type :=
  CASE WHEN NEW.revoked_at IS NOT NULL AND OLD.revoked_at IS NULL THEN 'revoked' ELSE 'updated' END;
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record('api_keys', 'api_key/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'api_key.' || v_type, NULL, NULL, waybill.api_key_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_api_key() TO waybill_owner;
COMMENT ON FUNCTION audit.record_api_key() IS 'Made by audit.create_recorder: appends an event for each version of an entity.';

CREATE OR REPLACE FUNCTION audit.record_log_policy()
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
  PERFORM audit.record('log_policies', 'log_policy/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'log_policy.' || v_type, NULL, NULL, waybill.log_policy_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_log_policy() TO waybill_owner;
COMMENT ON FUNCTION audit.record_log_policy() IS 'Made by audit.create_recorder: appends an event for each version of an entity.';

CREATE OR REPLACE FUNCTION audit.record_user()
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
    v_type :=
  CASE WHEN NEW.salt IS NULL AND OLD.salt IS NOT NULL THEN 'erased'
       WHEN NEW.disabled_at IS NOT NULL AND OLD.disabled_at IS NULL THEN 'disabled'
       WHEN NEW.disabled_at IS NULL AND OLD.disabled_at IS NOT NULL THEN 'enabled'
       ELSE 'updated' END;
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record('users', 'user/' || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       'user.' || v_type, NULL, NULL, waybill.user_snapshot(NEW), NULL, NULL);
  RETURN NULL;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_user() TO waybill_owner;
COMMENT ON FUNCTION audit.record_user() IS 'Made by audit.create_recorder: appends an event for each version of an entity.';

CREATE OR REPLACE FUNCTION waybill.api_key_snapshot(k waybill.api_keys)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object(
    'id', k.id, 'userId', k.user_id, 'name', k.name, 'prefix', k.prefix, 'hash', encode(k.hash, 'hex'), 'version', k.version,
    'createdAt', waybill.json_time(k.created_at), 'expiresAt', waybill.json_time(k.expires_at),
    'revokedAt', waybill.json_time(k.revoked_at), 'updatedAt', waybill.json_time(k.updated_at));
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.api_key_snapshot(waybill.api_keys) TO waybill_audit;
COMMENT ON FUNCTION waybill.api_key_snapshot(waybill.api_keys) IS 'An API key as events keep it: its hash, so that another secret put in its place shows; never a secret.';

CREATE OR REPLACE FUNCTION waybill.log_policy_snapshot(p waybill.log_policies)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object('id', p.id, 'isPublic', p.is_public, 'version', p.version, 'updatedAt', waybill.json_time(p.updated_at));
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.log_policy_snapshot(waybill.log_policies) TO waybill_audit;
COMMENT ON FUNCTION waybill.log_policy_snapshot(waybill.log_policies) IS 'Whether the log is public, as events keep it.';

CREATE OR REPLACE FUNCTION waybill.user_snapshot(u waybill.users)
 RETURNS text
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN json_build_object(
    'id', u.id, 'kind', u.kind,
    'subject', CASE WHEN u.kind <> 'human' THEN u.subject END, 'displayName', CASE WHEN u.kind <> 'human' THEN u.display_name END,
    'person', CASE WHEN u.salt IS NOT NULL THEN json_build_object(
      'subject', audit.pii_digest(u.salt, 'subject', u.subject), 'displayName', audit.pii_digest(u.salt, 'displayName', u.display_name)) END,
    'roles', to_json(u.roles), 'version', u.version, 'createdAt', waybill.json_time(u.created_at),
    'disabledAt', waybill.json_time(u.disabled_at), 'updatedAt', waybill.json_time(u.updated_at));
END
$function$;
GRANT EXECUTE ON FUNCTION waybill.user_snapshot(waybill.users) TO waybill_audit;
COMMENT ON FUNCTION waybill.user_snapshot(waybill.users) IS 'A user as events keep it: of a person digests only, null once erased.';
