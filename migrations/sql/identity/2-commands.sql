CREATE FUNCTION waybill.create_tenant(p_slug text, p_name text, p_system_user uuid) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_tenant bigint;
BEGIN
  INSERT INTO waybill.tenants (slug, name) VALUES (p_slug, p_name) RETURNING id INTO v_tenant;
  PERFORM waybill.set_context(v_tenant, p_system_user, ARRAY['system'], 'create_tenant');
  INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles)
  VALUES (v_tenant, p_system_user, 'system', 'system', 'Waybill', ARRAY['system']);
  PERFORM waybill.publish_rules(v_tenant);
  RETURN v_tenant;
END
$$;

COMMENT ON FUNCTION waybill.create_tenant IS
  'Makes a tenant and its system user, and leaves the transaction in the context of both. For waybill_owner.';

CREATE FUNCTION waybill.tenant_ids() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT t.id FROM waybill.tenants t ORDER BY t.id
$$;

COMMENT ON FUNCTION waybill.tenant_ids IS
  'The ids of all tenants, for background work that goes tenant by tenant.';

CREATE FUNCTION waybill.system_user(p_tenant bigint) RETURNS uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT u.id FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.kind = 'system');
END
$$;

COMMENT ON FUNCTION waybill.system_user IS
  'The user as which background work of a tenant acts. In the tenant''s context; null in another.';

CREATE FUNCTION waybill.require_actor(p_tenant bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_actor uuid := current_setting('waybill.actor');
BEGIN
  PERFORM FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = v_actor;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the actor % is not a user of tenant %', v_actor, p_tenant
      USING ERRCODE = 'WB001', HINT = 'waybill.set_context takes the id of one of the tenant''s users.';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.require_actor IS
  'Refuses where the actor of this transaction is not one of the tenant''s users.';

CREATE FUNCTION waybill.reference_user(p_table regclass, p_column text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY (tenant_id, %I) REFERENCES waybill.users (tenant_id, id)',
                 p_table, (SELECT c.relname FROM pg_class c WHERE c.oid = p_table) || '_user_fkey', p_column);
END
$$;

COMMENT ON FUNCTION waybill.reference_user IS
  'Makes a column of a table of a tenant name one of the tenant''s users. For migrations.';

CREATE FUNCTION waybill.find_tenant(p_name text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT t.id FROM waybill.tenants t
  WHERE CASE WHEN p_name ~ '^[0-9]{1,16}$' THEN t.id = p_name::bigint ELSE t.slug = p_name END
$$;

COMMENT ON FUNCTION waybill.find_tenant IS
  'The id of the tenant with this id, in digits, or with this slug; null when there is none.';

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
$$;

COMMENT ON FUNCTION waybill.meet_user IS
  'The user of a verified token, made on first sight; any number of first sights at once make one.';

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
$$;

COMMENT ON FUNCTION waybill.record_key_use IS
  'Notes when keys were last used, in parallel arrays; a time never goes back. Acts as the tenant''s system user.';

CREATE FUNCTION waybill.require_admin(p_tenant bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- A token brings a person's roles with it, and no row keeps them; those of everybody else stand in the row.
  IF NOT coalesce(string_to_array(current_setting('waybill.roles', true), ','), '{}') && '{admin,system}'
     OR NOT EXISTS (SELECT FROM waybill.users u
                    WHERE u.tenant_id = p_tenant AND u.id = nullif(current_setting('waybill.actor', true), '')::uuid
                      AND u.disabled_at IS NULL AND (u.kind = 'human' OR u.roles && '{admin,system}')) THEN
    RAISE EXCEPTION 'Users and API keys are changed only by one of the roles admin, system'
      USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', '["admin"]'::jsonb)::text,
            HINT = 'waybill.set_context says who acts, with which roles; a service user must hold the role in waybill.users, too.';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.require_admin IS
  'Refuses whoever doesn''t act as an administrator, is disabled, or is a service user whose row doesn''t have the role.';

CREATE FUNCTION waybill.lock_users(p_tenant bigint, p_ids uuid[]) RETURNS SETOF waybill.users
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT u.* FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = ANY (p_ids) ORDER BY u.id FOR NO KEY UPDATE
$$;

COMMENT ON FUNCTION waybill.lock_users IS
  'Keeps others from changing these users until the transaction ends, always in the order of their ids.';

CREATE FUNCTION waybill.create_user(
  p_tenant bigint, p_id uuid, p_subject text, p_kind text, p_display_name text, p_roles text[]) RETURNS SETOF waybill.users
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin(p_tenant);
  RETURN QUERY
  INSERT INTO waybill.users AS u (tenant_id, id, subject, kind, display_name, roles)
  VALUES (p_tenant, p_id, p_subject, p_kind, p_display_name, p_roles)
  ON CONFLICT (tenant_id, subject) DO NOTHING RETURNING u.*;
END
$$;

COMMENT ON FUNCTION waybill.create_user IS
  'Makes a user and returns it; no row when the subject is taken.';

CREATE FUNCTION waybill.change_user(
  p_tenant bigint, p_id uuid, p_display_name text, p_roles text[], p_disabled boolean) RETURNS SETOF waybill.users
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin(p_tenant);
  RETURN QUERY
  UPDATE waybill.users u
  SET display_name = coalesce(p_display_name, u.display_name), roles = coalesce(p_roles, u.roles),
      disabled_at = CASE p_disabled WHEN true THEN coalesce(u.disabled_at, clock_timestamp()) WHEN false THEN NULL ELSE u.disabled_at END
  WHERE u.tenant_id = p_tenant AND u.id = p_id AND u.kind <> 'system' RETURNING u.*;
END
$$;

COMMENT ON FUNCTION waybill.change_user IS
  'Changes a user and returns it; null leaves a part as it is. No row for the system user, and where there is none.';

CREATE FUNCTION waybill.erase_user(p_tenant bigint, p_id uuid) RETURNS SETOF waybill.users
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin(p_tenant);
  UPDATE waybill.users u
  SET subject = 'erased:' || gen_random_uuid(), display_name = 'erased', salt = NULL, disabled_at = coalesce(u.disabled_at, clock_timestamp())
  WHERE u.tenant_id = p_tenant AND u.id = p_id AND u.salt IS NOT NULL;
  -- Answers kept under an idempotency key show the same.
  PERFORM waybill.erase_answers(p_tenant, ARRAY['user/' || p_id]);
  RETURN QUERY SELECT u.* FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.erase_user IS
  'Erases who a person is, disables the user, and returns it: what it did stays, under its id. One that is erased, or no person, is returned as it is.';

CREATE FUNCTION waybill.create_api_key(
  p_tenant bigint, p_id uuid, p_user uuid, p_prefix text, p_hash bytea, p_name text, p_expires_at timestamptz)
RETURNS SETOF waybill.api_keys
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin(p_tenant);
  RETURN QUERY
  INSERT INTO waybill.api_keys AS k (tenant_id, id, user_id, prefix, hash, name, expires_at)
  SELECT p_tenant, p_id, u.id, p_prefix, p_hash, p_name, p_expires_at
  FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = p_user AND u.kind <> 'system' RETURNING k.*;
END
$$;

COMMENT ON FUNCTION waybill.create_api_key IS
  'Stores a key by the SHA-256 of its text and returns it; no row for the system user, which has none.';

CREATE FUNCTION waybill.revoke_api_key(p_tenant bigint, p_id uuid) RETURNS SETOF waybill.api_keys
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM waybill.require_admin(p_tenant);
  UPDATE waybill.api_keys k SET revoked_at = clock_timestamp()
  WHERE k.tenant_id = p_tenant AND k.id = p_id AND k.revoked_at IS NULL;
  RETURN QUERY SELECT k.* FROM waybill.api_keys k WHERE k.tenant_id = p_tenant AND k.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.revoke_api_key IS
  'Revokes a key, if it is not revoked yet, and returns it; no row when there is none.';

GRANT EXECUTE ON FUNCTION waybill.system_user, waybill.require_actor TO waybill_audit;

GRANT EXECUTE ON FUNCTION waybill.tenant_ids, waybill.find_tenant, waybill.meet_user, waybill.record_key_use, waybill.lock_users,
  waybill.create_user, waybill.change_user, waybill.erase_user, waybill.create_api_key, waybill.revoke_api_key TO waybill_app;
