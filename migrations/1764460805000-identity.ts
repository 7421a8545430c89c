import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Users and API keys that a tenant looks after itself, users that a token brings, and when a key was last used. */
export class Identity1764460805000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    // A tenant is named in tokens by its id or its slug: digits alone must mean one thing only.
    await db.query(`ALTER TABLE waybill.tenants ADD CONSTRAINT tenants_slug_not_a_number CHECK (slug !~ '^[0-9]+$')`);

    // The role system is the system user's alone. The names' form matters, as set_context joins roles with commas: a
    // role 'viewer,admin' would be two.
    await db.query(`
ALTER TABLE waybill.users
  ADD CONSTRAINT users_system_role CHECK ((kind = 'system') = ('system' = ANY (roles))),
  ADD CONSTRAINT users_roles_format CHECK (
    cardinality(roles) <= 50
    AND (cardinality(roles) = 0 OR array_to_string(roles, ',', '') ~ '^[a-z][a-z0-9_-]{0,62}(,[a-z][a-z0-9_-]{0,62})*$'))`);
    await db.query(`CREATE UNIQUE INDEX users_system_key ON waybill.users (tenant_id) WHERE kind = 'system'`);
    await db.query(`
ALTER TABLE waybill.api_keys
  ADD COLUMN name text NOT NULL DEFAULT 'unnamed',
  ADD CONSTRAINT api_keys_name_length CHECK (length(name) BETWEEN 1 AND 100)`);
    await db.query(`CREATE INDEX api_keys_user_idx ON waybill.api_keys (tenant_id, user_id)`);
    await db.query(`
CREATE TRIGGER api_keys_10_revoked BEFORE UPDATE ON waybill.api_keys FOR EACH ROW
  WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
  EXECUTE FUNCTION waybill.refuse_change('a revoked key stays revoked')`);

    await db.query(`
CREATE FUNCTION waybill.find_tenant(p_name text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT t.id FROM waybill.tenants t
  WHERE CASE WHEN p_name ~ '^[0-9]{1,16}$' THEN t.id = p_name::bigint ELSE t.slug = p_name END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.find_tenant IS
      'The id of the tenant with this id, in digits, or with this slug; null when there is none.'`);

    await db.query(`
CREATE FUNCTION waybill.meet_user(p_tenant bigint, p_id uuid, p_subject text, p_display_name text, p_roles text[])
RETURNS TABLE (id uuid, kind text, disabled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT u.id, u.kind, u.disabled_at IS NOT NULL FROM waybill.users u
               WHERE u.tenant_id = p_tenant AND u.subject = p_subject;
  IF FOUND THEN
    RETURN;
  END IF;
  -- Nobody has acted yet: who is met acts for himself. The tenant stays that of the transaction, so that row level
  -- security goes on guarding it.
  PERFORM waybill.set_context(nullif(current_setting('waybill.tenant_id', true), '')::bigint, p_id, '{}',
                              current_setting('waybill.request_id', true));
  INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles)
  VALUES (p_tenant, p_id, p_subject, 'human', p_display_name, p_roles)
  ON CONFLICT (tenant_id, subject) DO NOTHING;
  -- A second statement also sees the row of whoever was faster.
  RETURN QUERY SELECT u.id, u.kind, u.disabled_at IS NOT NULL FROM waybill.users u
               WHERE u.tenant_id = p_tenant AND u.subject = p_subject;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.meet_user IS
      'The user of a verified token, made on first sight; any number of first sights at once make one.'`);

    await db.query(`
CREATE FUNCTION waybill.record_key_use(p_tenant bigint, p_ids uuid[], p_times timestamptz[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Finds nobody, and so changes nothing, when the transaction belongs to another tenant.
  PERFORM waybill.set_context(p_tenant, u.id, '{system}', 'key use') FROM waybill.users u
  WHERE u.tenant_id = p_tenant AND u.kind = 'system';
  -- In the order of the ids, so that two processes can't deadlock.
  PERFORM 1 FROM waybill.api_keys k WHERE k.tenant_id = p_tenant AND k.id = ANY (p_ids) ORDER BY k.id FOR NO KEY UPDATE;
  UPDATE waybill.api_keys k SET last_used_at = w.used_at
  FROM unnest(p_ids, p_times) AS w(id, used_at)
  WHERE k.tenant_id = p_tenant AND k.id = w.id AND (k.last_used_at IS NULL OR k.last_used_at < w.used_at);
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.record_key_use IS
      'Notes when keys were last used, in parallel arrays; a time never goes back. Acts as the tenant''s system user.'`);
    await this.commands(db);
    await db.query(`
GRANT EXECUTE ON FUNCTION waybill.find_tenant, waybill.meet_user, waybill.record_key_use, waybill.lock_users,
  waybill.create_user, waybill.change_user, waybill.create_api_key, waybill.revoke_api_key TO waybill_app`);
  }

  /** What administrators do; the app role writes users and keys in no other way. */
  private async commands(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE FUNCTION waybill.require_admin() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT coalesce(string_to_array(current_setting('waybill.roles', true), ','), '{}') && '{admin,system}' THEN
    RAISE EXCEPTION 'Users and API keys are changed only by one of the roles admin, system'
      USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', '["admin"]'::jsonb)::text,
            HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
END
$$`);
    await db.query(`
CREATE FUNCTION waybill.lock_users(p_tenant bigint, p_ids uuid[]) RETURNS SETOF waybill.users
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT u.* FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = ANY (p_ids) ORDER BY u.id FOR NO KEY UPDATE
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.lock_users IS
      'Keeps others from changing these users until the transaction ends, always in the order of their ids.'`);
    await db.query(`
CREATE FUNCTION waybill.create_user(
  p_tenant bigint, p_id uuid, p_subject text, p_kind text, p_display_name text, p_roles text[]) RETURNS SETOF waybill.users
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin();
  RETURN QUERY
  INSERT INTO waybill.users AS u (tenant_id, id, subject, kind, display_name, roles)
  VALUES (p_tenant, p_id, p_subject, p_kind, p_display_name, p_roles)
  ON CONFLICT (tenant_id, subject) DO NOTHING RETURNING u.*;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.create_user IS
      'Makes a user and returns it; no row when the subject is taken.'`);
    await db.query(`
CREATE FUNCTION waybill.change_user(
  p_tenant bigint, p_id uuid, p_display_name text, p_roles text[], p_disabled boolean) RETURNS SETOF waybill.users
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin();
  RETURN QUERY
  UPDATE waybill.users u
  SET display_name = coalesce(p_display_name, u.display_name), roles = coalesce(p_roles, u.roles),
      disabled_at = CASE p_disabled WHEN true THEN coalesce(u.disabled_at, clock_timestamp()) WHEN false THEN NULL ELSE u.disabled_at END
  WHERE u.tenant_id = p_tenant AND u.id = p_id AND u.kind <> 'system' RETURNING u.*;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.change_user IS
      'Changes a user and returns it; null leaves a part as it is. No row for the system user, and where there is none.'`);
    await db.query(`
CREATE FUNCTION waybill.create_api_key(
  p_tenant bigint, p_id uuid, p_user uuid, p_prefix text, p_hash bytea, p_name text, p_expires_at timestamptz)
RETURNS SETOF waybill.api_keys
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin();
  RETURN QUERY
  INSERT INTO waybill.api_keys AS k (tenant_id, id, user_id, prefix, hash, name, expires_at)
  SELECT p_tenant, p_id, u.id, p_prefix, p_hash, p_name, p_expires_at
  FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = p_user AND u.kind <> 'system' RETURNING k.*;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.create_api_key IS
      'Stores a key by the SHA-256 of its text and returns it; no row for the system user, which has none.'`);
    await db.query(`
CREATE FUNCTION waybill.revoke_api_key(p_tenant bigint, p_id uuid) RETURNS SETOF waybill.api_keys
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin();
  UPDATE waybill.api_keys k SET revoked_at = clock_timestamp()
  WHERE k.tenant_id = p_tenant AND k.id = p_id AND k.revoked_at IS NULL;
  RETURN QUERY SELECT k.* FROM waybill.api_keys k WHERE k.tenant_id = p_tenant AND k.id = p_id;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.revoke_api_key IS
      'Revokes a key, if it is not revoked yet, and returns it; no row when there is none.'`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`
DROP FUNCTION waybill.revoke_api_key, waybill.create_api_key, waybill.change_user, waybill.create_user, waybill.lock_users,
              waybill.require_admin, waybill.record_key_use, waybill.meet_user, waybill.find_tenant;
DROP TRIGGER api_keys_10_revoked ON waybill.api_keys;
DROP INDEX waybill.api_keys_user_idx;
ALTER TABLE waybill.api_keys DROP COLUMN name;
DROP INDEX waybill.users_system_key;
ALTER TABLE waybill.users DROP CONSTRAINT users_roles_format, DROP CONSTRAINT users_system_role;
ALTER TABLE waybill.tenants DROP CONSTRAINT tenants_slug_not_a_number`);
  }
}
