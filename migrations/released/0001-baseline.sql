-- Step 0001 of 2025-11-30T00:00:01.000Z, by npm run migration:release.

-- migrations/sql/context/1-schema.sql

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

-- migrations/sql/context/2-types.sql

/*
 * What a text has to show, said for SQL as src/common/visible-text.ts says it for the service; a test compares them over all of Unicode.
 */

CREATE FUNCTION waybill.is_blank(p_text text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT p_text !~ '[^\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]'
$$;

COMMENT ON FUNCTION waybill.is_blank IS
  'Whether a text shows nothing: no character, or only white space, control characters and others that leave no mark.';

-- Not by the function: every statement that writes such a column would look it up.
CREATE DOMAIN waybill.visible_text AS text
  CONSTRAINT visible_text_shows CHECK (VALUE ~ '[^\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]');

COMMENT ON DOMAIN waybill.visible_text IS 'Text that is not blank; see waybill.is_blank.';

CREATE FUNCTION waybill.is_reference(p_text text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT p_text !~ '^$|^ | $|[\u0001-\u001F\u007F-\u00A0\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0000-\U000E0FFF]' AND p_text IS NFC NORMALIZED
         AND p_text NOT IN ('.', '..')
$$;

COMMENT ON FUNCTION waybill.is_reference IS
  'Whether a text can name something: no two that read the same are different (normalization form C, no white space but spaces inside, no character that leaves no mark), and each is a segment of an address (not . or ..).';

GRANT EXECUTE ON FUNCTION waybill.is_blank, waybill.is_reference TO waybill_app, waybill_audit, waybill_sealer;

/*
 * Rules of one column, said once for all tables. A domain's expression is kept for a session; a CHECK of a table is read and
 * planned anew by every statement that writes the table.
 */

CREATE DOMAIN waybill.minor_units AS bigint
  CONSTRAINT minor_units_range CHECK (VALUE BETWEEN 0 AND 9007199254740991);

COMMENT ON DOMAIN waybill.minor_units IS
  'An amount of money in the minor unit of its currency, not negative, below 2^53 so that JSON holds it exactly.';

CREATE DOMAIN waybill.currency_code AS text COLLATE "C"
  CONSTRAINT currency_code_format CHECK (length(VALUE) = 3 AND VALUE ~ '^[A-Z]+$');

CREATE DOMAIN waybill.tax_rate_ppm AS bigint
  CONSTRAINT tax_rate_ppm_range CHECK (VALUE BETWEEN 0 AND 1000000);

COMMENT ON DOMAIN waybill.tax_rate_ppm IS 'A tax rate in parts per million: 190000 is 19 %.';

CREATE DOMAIN waybill.reason AS waybill.visible_text
  CONSTRAINT reason_length CHECK (length(VALUE) <= 500);

CREATE DOMAIN waybill.bytes32 AS bytea
  CONSTRAINT bytes32_length CHECK (octet_length(VALUE) = 32);

COMMENT ON DOMAIN waybill.bytes32 IS 'A salt, an Ed25519 public key, or a SHA-256.';

CREATE DOMAIN waybill.json_object AS jsonb
  CONSTRAINT json_object_type CHECK (jsonb_typeof(VALUE) = 'object');

CREATE FUNCTION waybill.json_time(p_at timestamptz) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
END
$$;

COMMENT ON FUNCTION waybill.json_time IS 'RFC 3339 in UTC, to the microsecond, as snapshots write times.';

GRANT EXECUTE ON FUNCTION waybill.json_time TO waybill_audit;

-- migrations/sql/context/3-context.sql

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

-- migrations/sql/context/4-tenant-tables.sql

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

-- migrations/sql/identity/1-tables.sql

CREATE TABLE waybill.tenants (
  id         bigint GENERATED BY DEFAULT AS IDENTITY,
  slug       text COLLATE "C" NOT NULL,
  name       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT tenants_pkey PRIMARY KEY (id),
  CONSTRAINT tenants_slug_key UNIQUE (slug),
  CONSTRAINT tenants_id_range CHECK (id BETWEEN 1 AND 9007199254740991),
  CONSTRAINT tenants_slug_format CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  -- A tenant is named in tokens by its id or its slug: digits alone must mean one thing only.
  CONSTRAINT tenants_slug_not_a_number CHECK (slug !~ '^[0-9]+$'),
  CONSTRAINT tenants_name_length CHECK (length(name) BETWEEN 1 AND 200)
);

ALTER TABLE waybill.tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY tenants_own ON waybill.tenants FOR SELECT TO waybill_app
  USING (id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY tenants_all ON waybill.tenants TO waybill_owner USING (true) WITH CHECK (true);

CREATE POLICY tenants_read ON waybill.tenants FOR SELECT TO waybill_sealer USING (true);

CREATE TRIGGER tenants_00_refused BEFORE DELETE OR TRUNCATE ON waybill.tenants
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('a tenant''s history must outlive it');

GRANT SELECT ON waybill.tenants TO waybill_app, waybill_sealer;

CREATE TABLE waybill.users (
  tenant_id    bigint NOT NULL,
  id           uuid NOT NULL,
  subject      text COLLATE "C" NOT NULL,
  kind         text NOT NULL,
  display_name text NOT NULL,
  roles        text[] NOT NULL DEFAULT '{}',
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  disabled_at  timestamptz,
  version      int NOT NULL DEFAULT 1,
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  salt         waybill.bytes32,
  CONSTRAINT users_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT users_subject_key UNIQUE (tenant_id, subject),
  CONSTRAINT users_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants (id),
  CONSTRAINT users_kind_check CHECK (kind IN ('human', 'service', 'system')),
  CONSTRAINT users_subject_length CHECK (length(subject) BETWEEN 1 AND 255),
  CONSTRAINT users_display_name_length CHECK (length(display_name) BETWEEN 1 AND 200),
  CONSTRAINT users_system_role CHECK ((kind = 'system') = ('system' = ANY (roles))),
  -- set_context joins roles with commas: a role 'viewer,admin' would be two.
  CONSTRAINT users_roles_format CHECK (
    cardinality(roles) <= 50
    AND (cardinality(roles) = 0 OR array_to_string(roles, ',', '') ~ '^[a-z][a-z0-9_-]{0,62}(,[a-z][a-z0-9_-]{0,62})*$'))
);

COMMENT ON COLUMN waybill.users.salt IS
  'Of the digests of a person''s subject and name in events; null for services, and once the person is erased.';

CREATE UNIQUE INDEX users_system_key ON waybill.users (tenant_id) WHERE kind = 'system';

SELECT waybill.make_tenant_table('waybill.users', 'disable it instead: history refers to this row');

CREATE TRIGGER users_10_identity BEFORE UPDATE ON waybill.users FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.id, NEW.subject, NEW.kind) IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.subject, OLD.kind)
        AND (NEW.tenant_id, NEW.id, NEW.kind, NEW.salt IS NULL, NEW.subject LIKE 'erased:%')
            IS DISTINCT FROM (OLD.tenant_id, OLD.id, 'human', true, true))
  EXECUTE FUNCTION waybill.refuse_change('tenant, id, subject and kind of a user never change');

CREATE TRIGGER users_10_erased BEFORE UPDATE ON waybill.users FOR EACH ROW
  WHEN (OLD.kind = 'human' AND OLD.salt IS NULL)
  EXECUTE FUNCTION waybill.refuse_change('an erased person stays erased');

CREATE FUNCTION waybill.salt_person() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.salt := CASE NEW.kind WHEN 'human' THEN sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) END;
  RETURN NEW;
END
$$;

CREATE TRIGGER users_10_salt BEFORE INSERT ON waybill.users FOR EACH ROW EXECUTE FUNCTION waybill.salt_person();

CREATE TABLE waybill.api_keys (
  tenant_id    bigint NOT NULL,
  id           uuid NOT NULL,
  user_id      uuid NOT NULL,
  prefix       text COLLATE "C" NOT NULL,
  hash         waybill.bytes32 NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  name         text NOT NULL DEFAULT 'unnamed',
  version      int NOT NULL DEFAULT 1,
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT api_keys_prefix_key UNIQUE (tenant_id, prefix),
  CONSTRAINT api_keys_user_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES waybill.users (tenant_id, id),
  CONSTRAINT api_keys_name_length CHECK (length(name) BETWEEN 1 AND 100)
);

CREATE INDEX api_keys_user_idx ON waybill.api_keys (tenant_id, user_id);

SELECT waybill.make_tenant_table('waybill.api_keys', 'revoke it instead: history refers to this row');

CREATE TRIGGER api_keys_10_identity BEFORE UPDATE ON waybill.api_keys FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.id, NEW.user_id, NEW.prefix, NEW.hash)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.user_id, OLD.prefix, OLD.hash))
  EXECUTE FUNCTION waybill.refuse_change('a key is revoked and replaced, never rewritten');

CREATE TRIGGER api_keys_10_revoked BEFORE UPDATE ON waybill.api_keys FOR EACH ROW
  WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
  EXECUTE FUNCTION waybill.refuse_change('a revoked key stays revoked');

-- migrations/sql/identity/2-commands.sql

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

-- migrations/sql/audit/1-schema.sql

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

-- migrations/sql/audit/2-events.sql

SET LOCAL ROLE waybill_audit;

CREATE TABLE audit.events (
  tenant_id   bigint NOT NULL,
  stream      text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  event_id    uuid NOT NULL,
  type        text COLLATE "C" NOT NULL,
  actor       uuid NOT NULL,
  occurred_us bigint NOT NULL,
  body        text NOT NULL,
  prev_hash   bytea NOT NULL,
  event_hash  bytea NOT NULL,
  format      smallint NOT NULL,
  CONSTRAINT events_pkey PRIMARY KEY (tenant_id, stream, version)
);

COMMENT ON COLUMN audit.events.occurred_us IS 'Microseconds since 1970-01-01T00:00:00Z.';

COMMENT ON COLUMN audit.events.body IS 'JSON text, stored verbatim and hashed as stored.';

SELECT audit.make_append_only('audit.events');

CREATE POLICY events_append ON audit.events FOR INSERT TO waybill_audit
  WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY events_seal ON audit.events FOR SELECT TO waybill_sealer USING (true);

CREATE VIEW audit.field_changes WITH (security_invoker = true) AS
SELECT e.tenant_id,
       e.body::jsonb ->> 'table' AS table_name,
       split_part(e.stream, '/', 2) AS record_id,
       e.version,
       c.key AS field_name,
       CASE WHEN e.version > 1 THEN nullif(c.value -> 'old', 'null'::jsonb) END AS old_value,
       CASE WHEN e.version > 1 THEN nullif(c.value -> 'new', 'null'::jsonb) ELSE c.value END AS new_value,
       e.actor AS changed_by,
       timestamptz 'epoch' + e.occurred_us * interval '1 microsecond' AS changed_at
FROM audit.events e
CROSS JOIN LATERAL jsonb_each(e.body::jsonb -> CASE WHEN e.version > 1 THEN 'changes' ELSE 'snapshot' END) c;

GRANT SELECT ON audit.field_changes TO waybill_owner, waybill_app, waybill_sealer;

RESET ROLE;

-- migrations/sql/audit/3-hashing.sql

SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.event_hash(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint,
                                 p_type text, p_actor uuid, p_body text, p_prev_hash bytea, p_format smallint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN sha256(convert_to('waybill-audit/v' || p_format || E'\n', 'UTF8') || int8send(p_tenant) || uuid_send(p_event_id)
    || int4send(octet_length(p_stream)) || convert_to(p_stream, 'UTF8') || int8send(p_version) || int8send(p_occurred_us)
    || int4send(octet_length(p_type)) || convert_to(p_type, 'UTF8') || uuid_send(p_actor)
    || int4send(octet_length(p_body)) || convert_to(p_body, 'UTF8') || p_prev_hash);
END
$$;

CREATE FUNCTION audit.genesis_hash(p_tenant bigint, p_stream text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN sha256(convert_to(E'waybill-audit/genesis/v1\n', 'UTF8') || int8send(p_tenant)
    || int4send(octet_length(p_stream)) || convert_to(p_stream, 'UTF8'));
END
$$;

CREATE FUNCTION audit.pii_digest(p_salt bytea, p_field text, p_value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN encode(sha256(convert_to(E'waybill-pii/v1\n', 'UTF8') || p_salt
    || int4send(octet_length(p_field)) || convert_to(p_field, 'UTF8')
    || int4send(octet_length(p_value)) || convert_to(p_value, 'UTF8')), 'hex');
END
$$;

GRANT EXECUTE ON FUNCTION audit.event_hash, audit.genesis_hash TO waybill_owner, waybill_app, waybill_sealer;

RESET ROLE;

-- migrations/sql/audit/4-recording.sql

SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.changes(p_old json, p_new json) RETURNS json
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_aligned boolean;
  v_changes json;
BEGIN
  -- Two snapshots of one version of their function have the same members in the same order.
  SELECT bool_and(z.old_key = z.new_key),
         json_object_agg(z.new_key, json_build_object('old', z.old_value, 'new', z.new_value))
           FILTER (WHERE z.old_value::text <> z.new_value::text AND z.old_value::jsonb <> z.new_value::jsonb
                     AND z.new_key NOT IN ('version', 'updatedAt'))
  INTO v_aligned, v_changes
  FROM ROWS FROM (json_each(p_old), json_each(p_new)) AS z(old_key, old_value, new_key, new_value);
  IF v_aligned IS NOT TRUE THEN
    SELECT json_object_agg(key, json_build_object('old', o.value, 'new', n.value)) INTO v_changes
    FROM json_each(p_old) o FULL JOIN json_each(p_new) n USING (key)
    WHERE o.value::jsonb IS DISTINCT FROM n.value::jsonb AND key NOT IN ('version', 'updatedAt');
  END IF;
  RETURN coalesce(v_changes, '{}');
END
$$;

COMMENT ON FUNCTION audit.changes IS
  'Field to {old, new} for the top-level members in which two snapshots differ; version and updatedAt always do and are left out.';

CREATE FUNCTION audit.append(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint,
                             p_type text, p_actor uuid, p_body text, p_prev_hash bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
  VALUES (p_tenant, p_stream, p_version, p_event_id, p_type, p_actor, p_occurred_us, p_body, p_prev_hash,
          audit.event_hash(p_tenant, p_event_id, p_stream, p_version, p_occurred_us, p_type, p_actor, p_body, p_prev_hash, 1::smallint), 1);
  INSERT INTO audit.queue (tenant_id, stream, version, occurred_us) VALUES (p_tenant, p_stream, p_version, p_occurred_us);
END
$$;

COMMENT ON FUNCTION audit.append IS
  'Appends one event and queues it for sealing. Nobody but waybill_audit''s own functions may execute it.';

CREATE FUNCTION audit.record(p_table text, p_stream text, p_tenant bigint, p_version bigint, p_at timestamptz, p_type text,
                             p_reason text, p_rule_version int, p_snapshot text, p_parts text, p_erasure_type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_type text := p_type;
  v_prev_hash bytea;
  v_prev_body text;
  v_changes json;
BEGIN
  IF p_version = 1 THEN
    v_prev_hash := audit.genesis_hash(p_tenant, p_stream);
  ELSE
    SELECT e.event_hash, e.body INTO STRICT v_prev_hash, v_prev_body FROM audit.events e
    WHERE e.tenant_id = p_tenant AND e.stream = p_stream AND e.version = p_version - 1;
    -- The end of a body is its snapshot's. Equal text needs no parsing, and a quote within a value has a backslash before it.
    IF split_part(v_prev_body, p_parts, 2) = split_part(p_snapshot, p_parts, 2) || '}' THEN
      v_changes := audit.changes(
        concat(split_part(split_part(v_prev_body, p_parts, 1), ',"snapshot":', 2), '}')::json,
        concat(split_part(p_snapshot, p_parts, 1), '}')::json);
    ELSE
      v_changes := audit.changes(v_prev_body::json -> 'snapshot', p_snapshot::json);
      IF p_erasure_type IS NOT NULL AND json_typeof(v_changes #> '{contacts,new}') = 'null' THEN
        v_type := p_erasure_type;
      END IF;
    END IF;
  END IF;
  PERFORM audit.append(
    p_tenant, gen_random_uuid(), p_stream, p_version, (extract(epoch FROM p_at) * 1000000)::bigint, v_type,
    current_setting('waybill.actor')::uuid,
    concat('{"table":"', p_table, '","reason":', coalesce(to_json(p_reason)::text, 'null'), ',"requestId":',
           coalesce(to_json(nullif(current_setting('waybill.request_id', true), ''))::text, 'null'),
           ',"keyDigest":' || to_json(nullif(current_setting('waybill.key_digest', true), '')), ',"ruleVersion":' || p_rule_version,
           ',"changes":', coalesce(v_changes::text, 'null'), ',"snapshot":', p_snapshot, '}'),
    v_prev_hash);
END
$$;

COMMENT ON FUNCTION audit.record IS
  'Appends the event of one version of an entity: its snapshot, and the difference to the snapshot before. p_parts: the text that begins the members at the end of a snapshot which seldom change, such as ,"lines": — or null. p_erasure_type: the type where contacts are there no more, or null. Nobody but waybill_audit''s own functions may execute it.';

CREATE FUNCTION audit.hand_over_recorder(p_prefix text, p_comment text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('COMMENT ON FUNCTION audit.%I IS %L', 'record_' || p_prefix, p_comment);
  EXECUTE format('GRANT EXECUTE ON FUNCTION audit.%I TO waybill_owner', 'record_' || p_prefix);
END
$$;

CREATE FUNCTION audit.create_recorder(p_prefix text, p_table regclass, p_update_type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format($create$
CREATE FUNCTION audit.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $record$
DECLARE
  v_type text := 'created';
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.version = OLD.version THEN
      RETURN NULL;
    END IF;
    v_type := %6$s;
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record(%4$L, %2$L || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       %5$L || v_type, NULL, NULL, waybill.%3$I(NEW), NULL, NULL);
  RETURN NULL;
END
$record$ $create$,
    'record_' || p_prefix, p_prefix || '/', p_prefix || '_snapshot', (SELECT c.relname FROM pg_class c WHERE c.oid = p_table),
    p_prefix || '.', p_update_type);
  PERFORM audit.hand_over_recorder(p_prefix, 'Made by audit.create_recorder: appends an event for each version of an entity.');
END
$$;

COMMENT ON FUNCTION audit.create_recorder IS
  'Makes the trigger function audit.record_<prefix> of a table without states. For waybill.attach_stream, as waybill_audit.';

CREATE FUNCTION audit.create_machine_recorder(p_machine text, p_table regclass, p_parts text, p_erasure_type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format($create$
CREATE FUNCTION audit.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $record$
DECLARE
  v_type text := 'updated';
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    v_type := 'created';
    INSERT INTO waybill.%3$I (tenant_id, %4$I, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
  ELSIF NEW.version = OLD.version THEN
    RETURN NULL;
  ELSIF NEW.status <> OLD.status THEN
    v_type := NEW.status;
    SELECT h.reason, h.rule_version INTO STRICT v_reason, v_rule_version FROM waybill.%3$I h
    WHERE h.tenant_id = NEW.tenant_id AND h.%4$I = NEW.id ORDER BY h.seq DESC LIMIT 1;
  ELSE
    PERFORM waybill.require_actor(NEW.tenant_id);
  END IF;
  PERFORM audit.record(%6$L, %2$L || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       %7$L || v_type, v_reason, v_rule_version, waybill.%5$I(NEW), %8$L, %9$L);
  RETURN NULL;
END
$record$ $create$,
    'record_' || p_machine, p_machine || '/', p_machine || '_status_history', p_machine || '_id', p_machine || '_snapshot',
    (SELECT c.relname FROM pg_class c WHERE c.oid = p_table), p_machine || '.', p_parts, p_erasure_type);
  PERFORM audit.hand_over_recorder(p_machine,
    'Made by audit.create_machine_recorder: appends an event for each version of an entity, and begins its history. Who acted is a user of the tenant: the history refers to him, and a change without a step asks.');
END
$$;

COMMENT ON FUNCTION audit.create_machine_recorder IS
  'Makes the trigger function audit.record_<machine>. For waybill.attach_machine, as waybill_audit.';

GRANT EXECUTE ON FUNCTION audit.pii_digest, audit.create_recorder, audit.create_machine_recorder TO waybill_owner;

RESET ROLE;

-- migrations/sql/audit/5-log.sql

SET LOCAL ROLE waybill_audit;

CREATE TABLE audit.queue (
  tenant_id   bigint NOT NULL,
  stream      text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  occurred_us bigint NOT NULL,
  CONSTRAINT queue_pkey PRIMARY KEY (tenant_id, stream, version)
);

COMMENT ON TABLE audit.queue IS
  'Events that are not sealed yet. The append writes a row, the sealing takes it away; nothing depends on the order of commits.';

CREATE TABLE audit.logs (
  tenant_id  bigint NOT NULL,
  origin     text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT logs_pkey PRIMARY KEY (tenant_id)
);

COMMENT ON COLUMN audit.logs.origin IS 'Its first name; audit.keys has the generation that is appended after a restore.';

COMMENT ON TABLE audit.logs IS 'One log a tenant, made when its first event is sealed. Its row is the lock of whoever appends.';

CREATE TABLE audit.leaves (
  tenant_id  bigint NOT NULL,
  leaf_index bigint NOT NULL,
  stream     text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  sealed_us  bigint NOT NULL,
  signature  bytea NOT NULL,
  leaf_hash  waybill.bytes32 NOT NULL,
  CONSTRAINT leaves_pkey PRIMARY KEY (tenant_id, leaf_index),
  CONSTRAINT leaves_event_key UNIQUE (tenant_id, stream, version),
  CONSTRAINT leaves_index_range CHECK (leaf_index BETWEEN 0 AND 9007199254740991),
  CONSTRAINT leaves_signature_length CHECK (octet_length(signature) = 64)
);

COMMENT ON COLUMN audit.leaves.sealed_us IS 'When it was signed: microseconds since 1970-01-01T00:00:00Z by the clock of who signed. Never less than in the leaf before.';

CREATE TABLE audit.nodes (
  tenant_id  bigint NOT NULL,
  level      smallint NOT NULL,
  node_index bigint NOT NULL,
  hash       waybill.bytes32 NOT NULL,
  CONSTRAINT nodes_pkey PRIMARY KEY (tenant_id, level, node_index),
  CONSTRAINT nodes_level_check CHECK (level > 0 AND level % 8 = 0)
);

COMMENT ON TABLE audit.nodes IS
  'Roots of complete subtrees of 256, 65536, … leaves: level l, node i covers the leaves i * 2^l to (i + 1) * 2^l - 1. Nodes between are computed from at most 255 hashes.';

CREATE TABLE audit.checkpoints (
  tenant_id  bigint NOT NULL,
  size       bigint NOT NULL,
  root       waybill.bytes32 NOT NULL,
  note       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT checkpoints_pkey PRIMARY KEY (tenant_id, size)
);

CREATE TABLE audit.keys (
  tenant_id  bigint NOT NULL,
  generation integer NOT NULL,
  valid_from bigint NOT NULL,
  checkpoint_key waybill.bytes32 NOT NULL,
  event_key  waybill.bytes32 NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, generation, valid_from)
);

COMMENT ON TABLE audit.keys IS 'Ed25519 keys of each log, for whoever goes on with it. What a verifier believes are the log''s own events, which are signed.';

COMMENT ON COLUMN audit.keys.generation IS 'From 1; one more after each restore. From 2 on it is the last part of the log''s name.';

COMMENT ON COLUMN audit.keys.valid_from IS 'Index of the first leaf that the event key signs.';

CREATE TABLE audit.verifications (
  tenant_id   bigint NOT NULL,
  id          uuid NOT NULL,
  started_at  timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  verdict     text COLLATE "C" NOT NULL,
  from_index  bigint NOT NULL,
  size        bigint NOT NULL,
  root        bytea NOT NULL,
  result      jsonb NOT NULL,
  signature   bytea,
  CONSTRAINT verifications_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT verifications_verdict_check CHECK (verdict IN ('intact', 'tampered', 'unverifiable'))
);

COMMENT ON COLUMN audit.verifications.signature IS
  'By whoever verified, where everything was intact and a signing key at hand: a later verification need not read these leaves again.';

CREATE INDEX verifications_finished_idx ON audit.verifications (tenant_id, finished_at);

SELECT audit.make_append_only(t), audit.make_sealers(t)
FROM unnest('{audit.logs,audit.leaves,audit.nodes,audit.checkpoints,audit.keys,audit.verifications}'::regclass[]) AS t;

-- From the queue rows go when they are sealed, and only the append makes them.
SELECT audit.make_append_only('audit.queue', 'UPDATE OR TRUNCATE');

CREATE POLICY queue_seal ON audit.queue TO waybill_sealer USING (true) WITH CHECK (true);

-- To lock its row.
GRANT UPDATE ON audit.logs TO waybill_sealer;

CREATE POLICY queue_append ON audit.queue FOR INSERT TO waybill_audit WITH CHECK (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

CREATE POLICY logs_lock ON audit.logs FOR UPDATE TO waybill_audit USING (tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint);

GRANT DELETE ON audit.queue TO waybill_sealer;

CREATE FUNCTION audit.record_log_event(p_tenant bigint, p_type text, p_snapshot jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_stream text := 'log/' || p_tenant;
  v_last audit.events;
  v_actor uuid := waybill.system_user(p_tenant);
  v_occurred_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
  IF p_type NOT IN ('log.started', 'log.key-rotated', 'log.resumed') THEN
    RAISE EXCEPTION 'A log has no events of the type %', p_type USING ERRCODE = 'WB002';
  END IF;
  -- Whoever appends to the log holds its row, so this stream cannot fork either.
  PERFORM FROM audit.logs l WHERE l.tenant_id = p_tenant FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'Tenant % has no log in this context', p_tenant
      USING ERRCODE = 'WB001', HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, NULL, …);';
  END IF;
  SELECT e.* INTO v_last FROM audit.events e
  WHERE e.tenant_id = p_tenant AND e.stream = v_stream ORDER BY e.version DESC LIMIT 1;
  PERFORM audit.append(p_tenant, gen_random_uuid(), v_stream, coalesce(v_last.version, 0) + 1,
    greatest(v_occurred_us, v_last.occurred_us + 1), p_type, v_actor,
    jsonb_build_object('table', 'logs', 'reason', NULL, 'changes', NULL, 'snapshot', p_snapshot, 'requestId', NULL)::text,
    coalesce(v_last.event_hash, audit.genesis_hash(p_tenant, v_stream)));
  RETURN coalesce(v_last.version, 0) + 1;
END
$$;

COMMENT ON FUNCTION audit.record_log_event IS
  'Appends an event about the log itself to the stream log/<tenant>, as the tenant''s system user, and returns its version. For waybill_sealer, in the tenant''s context.';

GRANT EXECUTE ON FUNCTION audit.record_log_event TO waybill_sealer;

RESET ROLE;

-- migrations/sql/audit/6-state.sql

SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.state_sources() RETURNS TABLE (prefix text, entity_table regclass)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT DISTINCT substr(p.proname, length('record_') + 1), t.tgrelid::regclass
  FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
  WHERE p.pronamespace = 'audit'::regnamespace AND starts_with(p.proname, 'record_')
$$;

COMMENT ON FUNCTION audit.state_sources IS
  'Which tables have streams: the prefix of their streams and the table, as the triggers that audit.make_recorder made say.';

CREATE FUNCTION audit.history_faults(p_tenant bigint, p_prefix text, p_entities uuid[])
RETURNS TABLE (stream text, version bigint, detail text)
LANGUAGE plpgsql SECURITY DEFINER STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
  RETURN QUERY EXECUTE format($q$
    SELECT $2 || '/' || id, told.version,
           CASE WHEN kept.seq IS NULL THEN format('row %%s of its history is gone', seq)
                WHEN told.seq IS NULL THEN format('row %%s of its history is there, and no event tells of it', seq)
                ELSE format('%%s of row %%s of its history is not what the event says',
                            (SELECT string_agg(c.name, ', ')
                             FROM (VALUES ('from_status', told.from_status, kept.from_status), ('to_status', told.to_status, kept.to_status),
                                          ('changed_by', told.changed_by, kept.changed_by), ('changed_at', told.changed_at, kept.changed_at),
                                          ('reason', told.reason, kept.reason), ('request_id', told.request_id, kept.request_id))
                                  AS c(name, said, is_now)
                             WHERE c.said IS DISTINCT FROM c.is_now), seq) END
    FROM (SELECT s.id, row_number() OVER (PARTITION BY s.id ORDER BY s.version) AS seq, s.version, s.from_status, s.to_status,
                 s.actor::text AS changed_by, s.occurred_us::text AS changed_at, s.reason, s.request_id
          FROM (SELECT i.id, e.version, e.actor, e.occurred_us, b.reason, b."requestId" AS request_id, b.snapshot ->> 'status' AS to_status,
                       lag(b.snapshot ->> 'status') OVER (PARTITION BY i.id ORDER BY e.version) AS from_status
                FROM unnest($3) AS i(id)
                -- OFFSET 0 keeps the subquery apart, so that it is run for each id, by its index.
                CROSS JOIN LATERAL (SELECT x.version, x.actor, x.occurred_us, x.body FROM audit.events x
                                    WHERE x.tenant_id = $1 AND x.stream = $2 || '/' || i.id OFFSET 0) e
                CROSS JOIN LATERAL json_to_record(e.body::json) AS b(reason text, snapshot json, "requestId" text)) s
          WHERE s.version = 1 OR s.to_status IS DISTINCT FROM s.from_status) told
    FULL JOIN (SELECT h.%2$I AS id, h.seq::bigint, h.from_status, h.to_status, h.changed_by::text,
                      (extract(epoch FROM h.changed_at) * 1000000)::bigint::text AS changed_at, h.reason::text, h.request_id
               FROM unnest($3) AS i(id)
               CROSS JOIN LATERAL (SELECT x.* FROM waybill.%1$I x WHERE x.tenant_id = $1 AND x.%2$I = i.id OFFSET 0) h) kept USING (id, seq)
    WHERE (told.from_status, told.to_status, told.changed_by, told.changed_at, told.reason, told.request_id)
          IS DISTINCT FROM (kept.from_status, kept.to_status, kept.changed_by, kept.changed_at, kept.reason, kept.request_id)
    ORDER BY id, seq LIMIT 1 $q$, p_prefix || '_status_history', p_prefix || '_id')
  USING p_tenant, p_prefix, p_entities;
END
$$;

COMMENT ON FUNCTION audit.history_faults IS
  'Compares the status histories of entities with their events, row by row: states, who, when, why and in which request. At most one row: the first fault. In the tenant''s context.';

CREATE FUNCTION audit.state_faults(p_tenant bigint, p_prefix text, p_after uuid, p_limit int)
RETURNS TABLE (last_id uuid, code text, stream text, version bigint, detail text)
LANGUAGE plpgsql SECURITY DEFINER STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_source record;
  v_entity record;
  v_values text;
  v_ids uuid[] := '{}';
  v_has_history boolean;
BEGIN
  SELECT s.* INTO STRICT v_source FROM audit.state_sources() s WHERE s.prefix = p_prefix;
  FOR v_entity IN EXECUTE format($q$
    SELECT t.id, waybill.%I(t.entity)::jsonb AS state, e.version, e.body::jsonb -> 'snapshot' AS snapshot
    FROM (SELECT x.id, x AS entity FROM %s x WHERE x.tenant_id = $1 AND x.id > $2 ORDER BY x.id LIMIT $3) t
    LEFT JOIN LATERAL (SELECT version, body FROM audit.events
                       WHERE tenant_id = $1 AND stream = $4 || '/' || t.id ORDER BY version DESC LIMIT 1) e ON true
    ORDER BY t.id $q$, v_source.prefix || '_snapshot', v_source.entity_table)
    USING p_tenant, p_after, p_limit, p_prefix
  LOOP
    last_id := v_entity.id;
    v_ids := v_ids || v_entity.id;
    CONTINUE WHEN code IS NOT NULL;
    stream := p_prefix || '/' || v_entity.id;
    version := v_entity.version;
    IF v_entity.snapshot IS NULL THEN
      code := 'MISSING_STREAM';
      detail := 'it is there, and no event tells of it';
    ELSE
      SELECT 'STATE_DRIFT', 'its ' || string_agg(s.key, ', ' ORDER BY s.key) || ' is not what its last event says'
      INTO code, detail FROM jsonb_each(v_entity.snapshot) s
      WHERE v_entity.state -> s.key IS DISTINCT FROM s.value HAVING count(*) > 0;
    END IF;
  END LOOP;

  -- A module with personal data brings <prefix>_missing_values; what it says explains a drift of digests.
  v_values := to_regprocedure(format('waybill.%I(bigint, uuid[])', p_prefix || '_missing_values'))::regproc;
  IF v_values IS NOT NULL AND cardinality(v_ids) > 0 THEN
    FOR v_entity IN EXECUTE format('SELECT * FROM %s($1, $2) LIMIT 1', v_values) USING p_tenant, v_ids LOOP
      stream := p_prefix || '/' || v_entity.id;
      version := v_entity.version;
      code := CASE v_entity.state WHEN 'missing' THEN 'VALUE_MISSING' ELSE 'STATE_DRIFT' END;
      detail := format('the value of %s is %s, and no erasure tells why', v_entity.field, v_entity.state);
    END LOOP;
  END IF;

  v_has_history := to_regclass(format('waybill.%I', p_prefix || '_status_history')) IS NOT NULL;
  IF code IS NULL AND v_has_history AND cardinality(v_ids) > 0 THEN
    SELECT h.stream, h.version, 'HISTORY_DRIFT', h.detail INTO stream, version, code, detail
    FROM audit.history_faults(p_tenant, p_prefix, v_ids) h;
  END IF;

  -- A subquery rather than NOT EXISTS: for LIMIT 1 the planner compares every event with every entity.
  IF code IS NULL AND p_after = '00000000-0000-0000-0000-000000000000' THEN
    EXECUTE format($q$
      SELECT e.stream, 'STATE_DRIFT', 'its events are there, and it is gone' FROM audit.events e
      WHERE e.tenant_id = $1 AND e.stream > $2 || '/' AND e.stream < $2 || '0' AND e.version = 1
        AND (SELECT t.id FROM %s t WHERE t.tenant_id = $1 AND t.id = split_part(e.stream, '/', 2)::uuid) IS NULL
      ORDER BY e.stream LIMIT 1 $q$, v_source.entity_table)
    INTO stream, code, detail USING p_tenant, p_prefix;
  END IF;
  IF code IS NULL AND v_has_history AND p_after = '00000000-0000-0000-0000-000000000000' THEN
    EXECUTE format($q$
      SELECT $2 || '/' || h.%2$I, 'HISTORY_DRIFT', 'it has a history, and it is not there' FROM waybill.%1$I h
      WHERE h.tenant_id = $1 AND (SELECT t.id FROM %3$s t WHERE t.tenant_id = $1 AND t.id = h.%2$I) IS NULL
      ORDER BY h.%2$I LIMIT 1 $q$, p_prefix || '_status_history', p_prefix || '_id', v_source.entity_table)
    INTO stream, code, detail USING p_tenant, p_prefix;
  END IF;
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION audit.state_faults IS
  'Compares the next entities of one table with the last events of their streams, through the same snapshot function, on the members that the event has, and their status histories with all events. One row: the last entity that was looked at, and the first fault. In the tenant''s context.';

GRANT EXECUTE ON FUNCTION audit.state_sources, audit.state_faults TO waybill_sealer;

RESET ROLE;

-- migrations/sql/audit/7-streams.sql

CREATE FUNCTION waybill.guard_version() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.version IS DISTINCT FROM 1 THEN
      RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', TG_TABLE_NAME, NEW.id, NEW.version USING ERRCODE = 'WB003';
    END IF;
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
  END IF;
  IF NEW.version IS DISTINCT FROM OLD.version THEN
    RAISE EXCEPTION '% % is at version %: the next one is %, not %', TG_TABLE_NAME, OLD.id, OLD.version, OLD.version + 1, NEW.version
      USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_version IS
  'BEFORE INSERT OR UPDATE … FOR EACH ROW of a table that waybill.attach_stream was called for: counts versions and says when.';

CREATE FUNCTION waybill.attach_stream(p_prefix text, p_table regclass, p_unversioned text[] DEFAULT '{}', p_update_type text DEFAULT '''updated''')
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
  v_changed text;
  v_migrator name := current_user;
BEGIN
  SELECT format('(%s) IS DISTINCT FROM (%s)', string_agg(format('NEW.%I', a.attname), ', ' ORDER BY a.attnum),
                string_agg(format('OLD.%I', a.attname), ', ' ORDER BY a.attnum))
  INTO v_changed FROM pg_attribute a
  WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL (p_unversioned);
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION waybill.guard_version()',
                 v_name || '_20_version_insert', p_table);
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION waybill.guard_version()',
                 v_name || '_20_version_update', p_table, v_changed);
  EXECUTE format('GRANT SELECT ON %s TO waybill_audit', p_table);
  EXECUTE format('GRANT EXECUTE ON FUNCTION waybill.%I(%s) TO waybill_audit', p_prefix || '_snapshot', p_table);
  -- Events belong to waybill_audit, and so does whatever appends them.
  SET LOCAL ROLE waybill_audit;
  PERFORM audit.create_recorder(p_prefix, p_table, p_update_type);
  EXECUTE format('SET LOCAL ROLE %I', v_migrator);
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION audit.%I()',
                 v_name || '_50_record', p_table, 'record_' || p_prefix);
END
$$;

COMMENT ON FUNCTION waybill.attach_stream IS
  'Makes each row of a table an entity with a history: a version a change, and an event on <prefix>/<id> for each. The table has tenant_id, id, version and updated_at, and no states (see waybill.attach_machine for those); a function waybill.<prefix>_snapshot(row) returning JSON text says what an event keeps. p_unversioned: columns that may change without a version, and are in no snapshot. p_update_type: SQL over NEW and OLD for the type of a change, such as CASE WHEN … THEN ''revoked'' ELSE ''updated'' END. For migrations.';

-- migrations/sql/audit/8-publications.sql

SET LOCAL ROLE waybill_audit;

CREATE TABLE audit.publications (
  tenant_id    bigint NOT NULL,
  generation   integer NOT NULL,
  size         bigint NOT NULL,
  note         text NOT NULL,
  published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT publications_pkey PRIMARY KEY (tenant_id, generation, size)
);

COMMENT ON TABLE audit.publications IS
  'Checkpoints as they were published: with the cosignatures of the witnesses, where there are some. What is signed and not here is known to nobody outside.';

COMMENT ON COLUMN audit.publications.generation IS 'Of the log''s name, from 1; one more after each restore.';

SELECT audit.make_append_only('audit.publications'), audit.make_sealers('audit.publications');

RESET ROLE;

-- migrations/sql/workflow/1-machines.sql

CREATE TABLE waybill.machines (
  machine       text COLLATE "C" NOT NULL,
  entity_table  text NOT NULL,
  initial_state text COLLATE "C" NOT NULL,
  rule_version  int NOT NULL DEFAULT 0,
  rules         jsonb NOT NULL DEFAULT '[]',
  CONSTRAINT machines_pkey PRIMARY KEY (machine),
  CONSTRAINT machines_name_format CHECK (machine ~ '^[a-z][a-z0-9_]{0,62}$')
);

COMMENT ON COLUMN waybill.machines.entity_table IS
  'The table whose column status this machine rules.';

COMMENT ON COLUMN waybill.machines.rule_version IS
  'How often the machine''s rows of valid_transitions have changed; rules is what they were made to last. Both are kept by a trigger.';

CREATE TABLE waybill.valid_transitions (
  machine         text COLLATE "C" NOT NULL,
  from_state      text COLLATE "C" NOT NULL,
  to_state        text COLLATE "C" NOT NULL,
  roles           text[] NOT NULL,
  requires_reason boolean NOT NULL DEFAULT false,
  guards          text[] NOT NULL DEFAULT '{}',
  rule_version    int NOT NULL DEFAULT 0,
  CONSTRAINT valid_transitions_pkey PRIMARY KEY (machine, from_state, to_state),
  CONSTRAINT valid_transitions_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines (machine),
  CONSTRAINT valid_transitions_moves CHECK (from_state <> to_state),
  CONSTRAINT valid_transitions_state_format CHECK (from_state ~ '^[a-z][a-z0-9_]{0,62}$' AND to_state ~ '^[a-z][a-z0-9_]{0,62}$')
);

-- The trigger functions that waybill.attach_machine makes hold the initial state as a constant.
CREATE TRIGGER machines_10_fixed BEFORE UPDATE ON waybill.machines FOR EACH ROW
  WHEN ((NEW.machine, NEW.entity_table, NEW.initial_state) IS DISTINCT FROM (OLD.machine, OLD.entity_table, OLD.initial_state))
  EXECUTE FUNCTION waybill.refuse_change('a machine keeps its table and its initial state');

GRANT SELECT ON waybill.machines, waybill.valid_transitions TO waybill_app, waybill_audit, waybill_sealer;

-- migrations/sql/workflow/2-steps.sql

CREATE FUNCTION waybill.next_states(p_machine text, p_from text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(t.to_state ORDER BY t.to_state), '[]'::jsonb)
  FROM waybill.valid_transitions t WHERE t.machine = p_machine AND t.from_state = p_from
$$;

GRANT EXECUTE ON FUNCTION waybill.next_states TO waybill_app;

CREATE FUNCTION waybill.refuse_beginning(p_machine text, p_id uuid, p_state text, p_version int, p_initial text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_state IS DISTINCT FROM p_initial THEN
    RAISE EXCEPTION '% % cannot begin as %: every % begins as %', p_machine, p_id, p_state, p_machine, p_initial
      USING ERRCODE = 'WB003', HINT = 'Insert it in its initial state, then move it along valid_transitions.';
  END IF;
  RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', p_machine, p_id, p_version
    USING ERRCODE = 'WB003';
END
$$;

COMMENT ON FUNCTION waybill.refuse_beginning IS
  'Says why an entity cannot be inserted like this. For the guards that waybill.attach_machine makes.';

CREATE FUNCTION waybill.refuse_version(p_machine text, p_id uuid, p_present int, p_wanted int) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% % is at version %: the next one is %, not %', p_machine, p_id, p_present, p_present + 1, p_wanted
    USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
END
$$;

CREATE FUNCTION waybill.require_step(p_machine text, p_id uuid, p_from text, p_to text, p_has_reason boolean) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_rule waybill.valid_transitions;
BEGIN
  SELECT t.* INTO v_rule FROM waybill.valid_transitions t
  WHERE t.machine = p_machine AND t.from_state = p_from AND t.to_state = p_to;
  IF NOT FOUND THEN
    RAISE EXCEPTION '% % cannot go from % to %', p_machine, p_id, p_from, p_to
      USING ERRCODE = 'WB010',
            DETAIL = jsonb_build_object('from', p_from, 'to', p_to, 'allowed', waybill.next_states(p_machine, p_from))::text,
            HINT = 'waybill.valid_transitions lists what is allowed.';
  END IF;
  IF NOT v_rule.roles && coalesce(string_to_array(current_setting('waybill.roles', true), ','), '{}') THEN
    RAISE EXCEPTION '% % goes from % to % only by one of the roles %',
                    p_machine, p_id, p_from, p_to, array_to_string(v_rule.roles, ', ')
      USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', to_jsonb(v_rule.roles))::text,
            HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
  IF v_rule.requires_reason AND NOT p_has_reason THEN
    RAISE EXCEPTION '% % goes from % to % only with a reason', p_machine, p_id, p_from, p_to
      USING ERRCODE = 'WB014', HINT = 'Give it in the same UPDATE: SET status = …, transition_reason = …';
  END IF;
  RETURN v_rule.rule_version;
END
$$;

COMMENT ON FUNCTION waybill.require_step IS
  'Refuses a step that valid_transitions doesn''t have, that the actor''s roles don''t allow, or that lacks its reason. Returns the version of the rules that allowed it.';

-- migrations/sql/workflow/3-attach-machine.sql

CREATE FUNCTION waybill.guard_history() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'INSERT on %.% is refused: history is written by the triggers of the entity; change the entity',
                    TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'WB002';
  END IF;
  IF (NEW.seq = 1) IS DISTINCT FROM (NEW.from_status IS NULL) THEN
    PERFORM waybill.refuse_row(TG_TABLE_NAME || '_begins', 'the first row, and no other, has no state that it came from', NEW::text);
  END IF;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_history IS
  'BEFORE INSERT … FOR EACH ROW of a status history.';

CREATE FUNCTION waybill.make_status_history(p_machine text, p_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_history text := p_machine || '_status_history';
BEGIN
  EXECUTE format('CREATE TABLE waybill.%1$I (
                    tenant_id   bigint NOT NULL,
                    %2$I        uuid NOT NULL,
                    seq         int NOT NULL,
                    from_status text COLLATE "C",
                    to_status   text COLLATE "C" NOT NULL,
                    changed_by  uuid NOT NULL,
                    changed_at  timestamptz NOT NULL,
                    reason      waybill.reason,
                    request_id  text,
                    rule_version int,
                    CONSTRAINT %3$I PRIMARY KEY (tenant_id, %2$I, seq),
                    CONSTRAINT %4$I FOREIGN KEY (tenant_id, %2$I) REFERENCES %5$s (tenant_id, id))',
                 v_history, p_machine || '_id', v_history || '_pkey', v_history || '_' || p_machine || '_fkey', p_table);
  PERFORM waybill.reference_user(format('waybill.%I', v_history)::regclass, 'changed_by');
  PERFORM waybill.make_tenant_table(format('waybill.%I', v_history)::regclass, 'history is append-only', 'UPDATE OR DELETE OR TRUNCATE');
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON waybill.%I FOR EACH ROW EXECUTE FUNCTION waybill.guard_history()',
                 v_history || '_10_guard', v_history);
END
$$;

COMMENT ON FUNCTION waybill.make_status_history IS
  'Makes the table waybill.<machine>_status_history: who moved an entity of p_table (tenant_id, id) from which state to which, when and why. For migrations.';

CREATE FUNCTION waybill.attach_machine(p_machine text, p_fixed text[], p_rules regproc DEFAULT NULL, p_erasure_type text DEFAULT NULL,
                                       p_parts text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_table regclass;
  v_name text;
  v_initial text;
  v_on_insert text := '';
  v_on_update text := '';
  v_migrator name := current_user;
BEGIN
  SELECT m.entity_table::regclass, m.initial_state INTO v_table, v_initial FROM waybill.machines m WHERE m.machine = p_machine;
  IF v_table IS NULL THEN
    RAISE EXCEPTION 'There is no machine %', p_machine USING ERRCODE = 'WB003', HINT = 'INSERT it INTO waybill.machines first.';
  END IF;
  v_name := (SELECT c.relname FROM pg_class c WHERE c.oid = v_table);
  PERFORM waybill.make_status_history(p_machine, v_table);
  IF p_rules IS NOT NULL THEN
    v_on_insert := format('PERFORM %s(NEW, NULL);', p_rules);
    v_on_update := format('PERFORM %s(NEW, OLD);', p_rules);
  END IF;

  EXECUTE format($create$
CREATE FUNCTION waybill.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $guard$
DECLARE
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.status IS DISTINCT FROM %3$L OR NEW.version IS DISTINCT FROM 1 THEN
      PERFORM waybill.refuse_beginning(%2$L, NEW.id, NEW.status, NEW.version, %3$L);
    END IF;
    -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
    IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
      NEW.updated_at := clock_timestamp();
    END IF;
    NEW.transition_reason := NULL;
    %4$s
    RETURN NEW;
  END IF;

  v_reason := NEW.transition_reason;
  IF v_reason IS NOT NULL THEN
    NEW.transition_reason := NULL;
    IF waybill.is_blank(v_reason) THEN
      v_reason := NULL;
    END IF;
  END IF;
  IF NEW IS NOT DISTINCT FROM OLD THEN
    RETURN NEW;
  END IF;
  IF (%6$s) IS DISTINCT FROM (%7$s) THEN
    RAISE EXCEPTION 'UPDATE on %8$s is refused: %9$s never change' USING ERRCODE = 'WB002';
  END IF;
  IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
    PERFORM waybill.refuse_version(%2$L, OLD.id, OLD.version, NEW.version);
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  %5$s
  IF NEW.status <> OLD.status THEN
    v_rule_version := waybill.require_step(%2$L, OLD.id, OLD.status, NEW.status, v_reason IS NOT NULL);
    -- Here and not after the row, because only here the reason is at hand: it is an argument that the row doesn't keep.
    INSERT INTO waybill.%10$I (tenant_id, %11$I, seq, from_status, to_status, changed_by, changed_at, reason, request_id, rule_version)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), ''), v_rule_version
    FROM waybill.%10$I h WHERE h.tenant_id = NEW.tenant_id AND h.%11$I = NEW.id;
  END IF;
  RETURN NEW;
END
$guard$ $create$,
    'guard_' || p_machine, p_machine, v_initial, v_on_insert, v_on_update,
    (SELECT string_agg(format('NEW.%I', f), ', ') FROM unnest(p_fixed) f),
    (SELECT string_agg(format('OLD.%I', f), ', ') FROM unnest(p_fixed) f),
    v_table, array_to_string(p_fixed, ', '), p_machine || '_status_history', p_machine || '_id');
  EXECUTE format('COMMENT ON FUNCTION waybill.%I IS %L', 'guard_' || p_machine,
                 'Made by waybill.attach_machine: what may be inserted and how it may change; version, time and history of a change.');
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION waybill.%I()',
                 v_name || '_20_guard', v_table, 'guard_' || p_machine);

  EXECUTE format('GRANT SELECT ON %s TO waybill_audit', v_table);
  EXECUTE format('GRANT SELECT, INSERT ON waybill.%I TO waybill_audit', p_machine || '_status_history');
  EXECUTE format('GRANT EXECUTE ON FUNCTION waybill.%I(%s) TO waybill_audit', p_machine || '_snapshot', v_table);
  -- Events belong to waybill_audit, and so does whatever appends them.
  SET LOCAL ROLE waybill_audit;
  PERFORM audit.create_machine_recorder(p_machine, v_table, p_parts, p_erasure_type);
  EXECUTE format('SET LOCAL ROLE %I', v_migrator);
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION audit.%I()',
                 v_name || '_50_record_insert', v_table, 'record_' || p_machine);
  EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION audit.%I()',
                 v_name || '_50_record_update', v_table, 'record_' || p_machine);
END
$$;

COMMENT ON FUNCTION waybill.attach_machine IS
  'Puts the table of a machine under its rules: makes waybill.<machine>_status_history and the trigger functions that guard each change and record it as an event on <machine>/<id>. The table has tenant_id, id, status, version, updated_at and transition_reason; a function waybill.<machine>_snapshot(row) returning JSON text says what an event keeps. p_fixed: columns that never change. p_rules: function(new row, old row or null) that refuses what breaks a rule of several columns. p_parts, p_erasure_type: as audit.record takes them. For migrations.';

CREATE FUNCTION waybill.detach_machine(p_machine text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_migrator name := current_user;
BEGIN
  EXECUTE format('DROP FUNCTION waybill.%I() CASCADE', 'guard_' || p_machine);
  SET LOCAL ROLE waybill_audit;
  EXECUTE format('DROP FUNCTION audit.%I() CASCADE', 'record_' || p_machine);
  EXECUTE format('SET LOCAL ROLE %I', v_migrator);
  EXECUTE format('DROP TABLE waybill.%I', p_machine || '_status_history');
  DELETE FROM waybill.valid_transitions t WHERE t.machine = p_machine;
  DELETE FROM waybill.step_rules r WHERE r.machine = p_machine;
  DELETE FROM waybill.machines m WHERE m.machine = p_machine;
END
$$;

COMMENT ON FUNCTION waybill.detach_machine IS
  'Takes back what attach_machine made, with the machine, its rules and its history. The table stays, without rules. For migrations that go down.';

-- migrations/sql/workflow/4-states.sql

CREATE FUNCTION waybill.add_state(p_machine text, p_state text, p_transitions jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_table regclass;
  v_constraint text;
  v_states text;
BEGIN
  SELECT m.entity_table::regclass INTO v_table FROM waybill.machines m WHERE m.machine = p_machine;
  IF v_table IS NULL THEN
    RAISE EXCEPTION 'There is no machine %', p_machine USING ERRCODE = 'WB003', HINT = 'waybill.machines lists them.';
  END IF;
  INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards)
  SELECT p_machine, t.from_state, t.to_state, t.roles, coalesce(t.requires_reason, false), coalesce(t.guards, '{}')
  FROM jsonb_to_recordset(p_transitions)
    AS t(from_state text, to_state text, roles text[], requires_reason boolean, guards text[]);

  v_constraint := (SELECT c.relname FROM pg_class c WHERE c.oid = v_table) || '_status_check';
  -- What was allowed stays allowed: entities may be in a state that no transition names any more.
  SELECT string_agg(quote_literal(s.state), ', ' ORDER BY s.state) INTO v_states FROM (
    SELECT p_state AS state
    UNION SELECT m.initial_state FROM waybill.machines m WHERE m.machine = p_machine
    UNION SELECT unnest(ARRAY[t.from_state, t.to_state]) FROM waybill.valid_transitions t WHERE t.machine = p_machine
    UNION SELECT (regexp_matches(pg_get_constraintdef(c.oid), '''([a-z][a-z0-9_]*)''', 'g'))[1]
          FROM pg_constraint c WHERE c.conrelid = v_table AND c.conname = v_constraint
  ) s;
  EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %2$I CHECK (status IN (%3$s)) NOT VALID',
                 v_table, v_constraint, v_states);
  EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', v_table, v_constraint);
END
$$;

COMMENT ON FUNCTION waybill.add_state IS
  'For an extension''s migration: adds a state with its transitions [{from_state, to_state, roles, requires_reason?, guards?}] and rebuilds the CHECK of the machine''s table, <table>_status_check.';

CREATE FUNCTION waybill.states_in_use(p_machine text) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_table regclass := (SELECT m.entity_table::regclass FROM waybill.machines m WHERE m.machine = p_machine);
  v_before text := current_setting('waybill.tenant_id', true);
  v_tenant bigint;
  v_state text;
  v_found text[] := '{}';
BEGIN
  -- Tenant by tenant, as the policies want it, and from state to state by the index: a few look-ups a tenant, however
  -- many entities it has.
  FOR v_tenant IN SELECT t.id FROM waybill.tenant_ids() AS t(id) LOOP
    PERFORM set_config('waybill.tenant_id', v_tenant::text, true);
    v_state := '';
    LOOP
      EXECUTE format('SELECT status FROM %s WHERE tenant_id = $1 AND status > $2 ORDER BY status LIMIT 1', v_table)
      INTO v_state USING v_tenant, v_state;
      EXIT WHEN v_state IS NULL;
      IF v_state <> ALL (v_found) THEN
        v_found := v_found || v_state;
      END IF;
    END LOOP;
  END LOOP;
  PERFORM set_config('waybill.tenant_id', coalesce(v_before, ''), true);
  RETURN v_found;
END
$$;

COMMENT ON FUNCTION waybill.states_in_use IS
  'The states that entities of a machine are in, all tenants together: nothing but their names. For the warning at the start.';

GRANT EXECUTE ON FUNCTION waybill.states_in_use TO waybill_app;

-- migrations/sql/workflow/5-step-rules.sql

CREATE TABLE waybill.step_rules (
  machine   text COLLATE "C" NOT NULL,
  rule      text COLLATE "C" NOT NULL,
  to_states text[] NOT NULL,
  CONSTRAINT step_rules_pkey PRIMARY KEY (machine, rule),
  CONSTRAINT step_rules_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines (machine)
);

COMMENT ON COLUMN waybill.step_rules.rule IS
  'A function (tenant, id of the entity) that says what stands in the way of a step to one of these states; see waybill.add_step_rule.';

GRANT SELECT ON waybill.step_rules TO waybill_app, waybill_audit, waybill_sealer;

CREATE FUNCTION waybill.raise_refusal(p_refusal jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '%', p_refusal ->> 'message'
    USING ERRCODE = p_refusal ->> 'code', DETAIL = coalesce(p_refusal ->> 'detail', ''), HINT = coalesce(p_refusal ->> 'hint', '');
END
$$;

COMMENT ON FUNCTION waybill.raise_refusal IS
  'Raises what a rule of a step says: {code: SQLSTATE, message, detail?, hint?}.';

CREATE FUNCTION waybill.add_step_rule(p_machine text, p_rule regproc, p_to_states text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_table regclass := (SELECT m.entity_table::regclass FROM waybill.machines m WHERE m.machine = p_machine);
  v_rule name := (SELECT p.proname FROM pg_proc p WHERE p.oid = p_rule);
BEGIN
  INSERT INTO waybill.step_rules (machine, rule, to_states) VALUES (p_machine, p_rule::text, p_to_states);
  EXECUTE format($create$
CREATE FUNCTION waybill.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $ask$
DECLARE
  v_refusal jsonb;
BEGIN
  IF NEW.status <> OLD.status AND NEW.status IN (%2$s) THEN
    v_refusal := %3$s(NEW.tenant_id, NEW.id);
    IF v_refusal IS NOT NULL THEN
      PERFORM waybill.raise_refusal(v_refusal);
    END IF;
  END IF;
  RETURN NEW;
END
$ask$ $create$,
    'ask_' || v_rule, (SELECT string_agg(quote_literal(s), ', ') FROM unnest(p_to_states) s), p_rule);
  EXECUTE format('COMMENT ON FUNCTION waybill.%I IS %L', 'ask_' || v_rule, 'Made by waybill.add_step_rule.');
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION waybill.%I()',
                 (SELECT c.relname FROM pg_class c WHERE c.oid = v_table) || '_25_' || v_rule, v_table, 'ask_' || v_rule);
END
$$;

COMMENT ON FUNCTION waybill.add_step_rule IS
  'Lets a function (tenant, id of the entity) say what stands in the way of a step of a machine to some states: null for nothing, or {code: SQLSTATE, message, detail?, hint?} as jsonb. The step is refused with that, and waybill.step_refusals lists it. For migrations.';

CREATE FUNCTION waybill.drop_step_rule(p_machine text, p_rule regproc) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('DROP FUNCTION waybill.%I() CASCADE', 'ask_' || (SELECT p.proname FROM pg_proc p WHERE p.oid = p_rule));
  DELETE FROM waybill.step_rules r WHERE r.machine = p_machine AND r.rule = p_rule::text;
END
$$;

COMMENT ON FUNCTION waybill.drop_step_rule IS
  'Takes back what add_step_rule made; the rule''s function stays. For migrations that go down.';

CREATE FUNCTION waybill.step_refusals(p_tenant bigint, p_machine text, p_id uuid) RETURNS TABLE (to_states text[], refusal jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_rule text;
BEGIN
  FOR v_rule, to_states IN SELECT r.rule, r.to_states FROM waybill.step_rules r WHERE r.machine = p_machine ORDER BY r.rule LOOP
    EXECUTE format('SELECT %s($1, $2)', v_rule) INTO refusal USING p_tenant, p_id;
    IF refusal IS NOT NULL THEN
      RETURN NEXT;
    END IF;
  END LOOP;
END
$$;

COMMENT ON FUNCTION waybill.step_refusals IS
  'What the rules of waybill.add_step_rule have against steps of an entity now, and to which states: the very questions that the steps are asked.';

GRANT EXECUTE ON FUNCTION waybill.step_refusals TO waybill_app;

-- migrations/sql/workflow/6-rule-history.sql

CREATE TABLE waybill.workflow_rules (
  tenant_id    bigint NOT NULL,
  id           uuid NOT NULL DEFAULT gen_random_uuid(),
  machine      text COLLATE "C" NOT NULL,
  rule_version int NOT NULL,
  rules        jsonb NOT NULL,
  version      int NOT NULL DEFAULT 1,
  updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT workflow_rules_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT workflow_rules_machine_key UNIQUE (tenant_id, machine)
);

COMMENT ON TABLE waybill.workflow_rules IS
  'The rules of each machine as a tenant''s log tells of them, so that an export of the tenant alone shows which rule was in force. A copy of waybill.machines.';

SELECT waybill.make_tenant_table('waybill.workflow_rules', 'what a machine allowed stays known');

CREATE FUNCTION waybill.workflow_snapshot(r waybill.workflow_rules) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', r.id, 'machine', r.machine, 'ruleVersion', r.rule_version, 'rules', r.rules, 'version', r.version,
                           'updatedAt', waybill.json_time(r.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.workflow_snapshot IS
  'The rules of a machine as events keep them; each names the ruleVersion that it came with.';

SELECT waybill.attach_stream('workflow', 'waybill.workflow_rules');

CREATE FUNCTION waybill.number_rule() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.rule_version := (SELECT m.rule_version + 1 FROM waybill.machines m WHERE m.machine = NEW.machine);
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.number_rule IS
  'BEFORE INSERT OR UPDATE … FOR EACH ROW of valid_transitions: the version of the machine''s rules that this one comes with.';

CREATE FUNCTION waybill.publish_rules(p_tenant bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO waybill.workflow_rules AS r (tenant_id, machine, rule_version, rules)
  SELECT p_tenant, m.machine, m.rule_version, m.rules FROM waybill.machines m
  ON CONFLICT (tenant_id, machine) DO UPDATE SET rule_version = excluded.rule_version, rules = excluded.rules
  WHERE r.rule_version <> excluded.rule_version;
END
$$;

COMMENT ON FUNCTION waybill.publish_rules IS
  'Tells a tenant''s log of rules that it does not have yet. In the tenant''s context.';

CREATE FUNCTION waybill.note_rules() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_tenant text := nullif(current_setting('waybill.tenant_id', true), '');
  v_actor text := nullif(current_setting('waybill.actor', true), '');
  v_roles text := coalesce(current_setting('waybill.roles', true), '');
  v_request text := current_setting('waybill.request_id', true);
  v_id bigint;
BEGIN
  UPDATE waybill.machines m SET rule_version = m.rule_version + 1, rules = now_valid.rules
  FROM (SELECT x.machine, coalesce(jsonb_agg(jsonb_build_object(
                 'from', t.from_state, 'to', t.to_state, 'roles', t.roles, 'requiresReason', t.requires_reason, 'guards', t.guards,
                 'ruleVersion', t.rule_version) ORDER BY t.from_state, t.to_state) FILTER (WHERE t.machine IS NOT NULL), '[]') AS rules
        FROM waybill.machines x LEFT JOIN waybill.valid_transitions t ON t.machine = x.machine GROUP BY x.machine) now_valid
  WHERE now_valid.machine = m.machine AND now_valid.rules <> m.rules;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  FOR v_id IN SELECT t.id FROM waybill.tenant_ids() AS t(id) LOOP
    -- The tenant's system user acts; to find it, the transaction must be in the tenant already.
    PERFORM waybill.set_context(v_id, NULL, '{system}', 'workflow rules');
    PERFORM waybill.set_context(v_id, waybill.system_user(v_id), '{system}', 'workflow rules');
    PERFORM waybill.publish_rules(v_id);
  END LOOP;
  PERFORM waybill.set_context(v_tenant::bigint, v_actor::uuid, string_to_array(v_roles, ','), v_request);
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION waybill.note_rules IS
  'AFTER INSERT OR UPDATE OR DELETE … FOR EACH STATEMENT of valid_transitions: counts the version of a machine''s rules and tells every tenant''s log, as its system user.';

CREATE TRIGGER valid_transitions_20_insert BEFORE INSERT ON waybill.valid_transitions
  FOR EACH ROW EXECUTE FUNCTION waybill.number_rule();

CREATE TRIGGER valid_transitions_20_update BEFORE UPDATE ON waybill.valid_transitions
  FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION waybill.number_rule();

CREATE TRIGGER valid_transitions_50_note AFTER INSERT OR UPDATE OR DELETE ON waybill.valid_transitions
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.note_rules();

-- migrations/sql/tenancy/1-users-and-keys.sql

CREATE FUNCTION waybill.user_snapshot(u waybill.users) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object(
    'id', u.id, 'kind', u.kind,
    'subject', CASE WHEN u.kind <> 'human' THEN u.subject END, 'displayName', CASE WHEN u.kind <> 'human' THEN u.display_name END,
    'person', CASE WHEN u.salt IS NOT NULL THEN json_build_object(
      'subject', audit.pii_digest(u.salt, 'subject', u.subject), 'displayName', audit.pii_digest(u.salt, 'displayName', u.display_name)) END,
    'roles', to_json(u.roles), 'version', u.version, 'createdAt', waybill.json_time(u.created_at),
    'disabledAt', waybill.json_time(u.disabled_at), 'updatedAt', waybill.json_time(u.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.user_snapshot IS
  'A user as events keep it: of a person digests only, null once erased.';

CREATE FUNCTION waybill.api_key_snapshot(k waybill.api_keys) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object(
    'id', k.id, 'userId', k.user_id, 'name', k.name, 'prefix', k.prefix, 'hash', encode(k.hash, 'hex'), 'version', k.version,
    'createdAt', waybill.json_time(k.created_at), 'expiresAt', waybill.json_time(k.expires_at),
    'revokedAt', waybill.json_time(k.revoked_at), 'updatedAt', waybill.json_time(k.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.api_key_snapshot IS
  'An API key as events keep it: its hash, so that another secret put in its place shows; never a secret.';

SELECT waybill.attach_stream('user', 'waybill.users', p_update_type => $$
  CASE WHEN NEW.salt IS NULL AND OLD.salt IS NOT NULL THEN 'erased'
       WHEN NEW.disabled_at IS NOT NULL AND OLD.disabled_at IS NULL THEN 'disabled'
       WHEN NEW.disabled_at IS NULL AND OLD.disabled_at IS NOT NULL THEN 'enabled'
       ELSE 'updated' END$$);

SELECT waybill.attach_stream('api_key', 'waybill.api_keys', p_unversioned => '{last_used_at}', p_update_type => $$
  CASE WHEN NEW.revoked_at IS NOT NULL AND OLD.revoked_at IS NULL THEN 'revoked' ELSE 'updated' END$$);

-- migrations/sql/tenancy/2-public-logs.sql

CREATE TABLE waybill.log_policies (
  tenant_id  bigint NOT NULL,
  is_public  boolean NOT NULL,
  id         uuid NOT NULL DEFAULT gen_random_uuid(),
  version    int NOT NULL DEFAULT 1,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT log_policies_pkey PRIMARY KEY (tenant_id),
  CONSTRAINT log_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants (id)
);

COMMENT ON TABLE waybill.log_policies IS
  'Whether anybody may read checkpoint and hashes of a tenant''s log, without credentials. A tenant without a row keeps them to itself.';

SELECT waybill.make_tenant_table('waybill.log_policies', 'set is_public to false instead', 'DELETE OR TRUNCATE');

CREATE FUNCTION waybill.log_policy_snapshot(p waybill.log_policies) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', p.id, 'isPublic', p.is_public, 'version', p.version, 'updatedAt', waybill.json_time(p.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.log_policy_snapshot IS 'Whether the log is public, as events keep it.';

SELECT waybill.attach_stream('log_policy', 'waybill.log_policies');

-- migrations/sql/orders/1-tables.sql

CREATE DOMAIN waybill.order_number AS text COLLATE "C"
  CONSTRAINT order_number_format CHECK (length(VALUE) BETWEEN 4 AND 24 AND VALUE ~ '^[0-9A-Z][0-9A-Z-]+$');

CREATE DOMAIN waybill.channel AS text COLLATE "C"
  CONSTRAINT channel_format CHECK (length(VALUE) <= 32 AND VALUE ~ '^[a-z0-9][a-z0-9_.-]*$');

CREATE DOMAIN waybill.reference AS text COLLATE "C"
  -- Most are plain ASCII, and need no call.
  CONSTRAINT reference_form CHECK (length(VALUE) <= 100
    AND (VALUE ~ '^[!-~]*[!-\-/-~][!-~]*$' OR waybill.is_reference(VALUE)));

COMMENT ON DOMAIN waybill.reference IS 'What another system calls an order or a customer; see waybill.is_reference.';

-- 16 KiB of JSON text, which the API takes, can be six times as much in jsonb, where a digit and its comma are 12 bytes.
CREATE DOMAIN waybill.metadata AS jsonb
  CONSTRAINT metadata_object CHECK (jsonb_typeof(VALUE) = 'object' AND pg_column_size(VALUE) <= 131072);

CREATE DOMAIN waybill.line_no AS smallint
  CONSTRAINT line_no_range CHECK (VALUE BETWEEN 1 AND 250);

CREATE DOMAIN waybill.sku AS waybill.visible_text
  CONSTRAINT sku_length CHECK (length(VALUE) <= 100);

CREATE DOMAIN waybill.item_name AS waybill.visible_text
  CONSTRAINT item_name_length CHECK (length(VALUE) <= 300);

CREATE DOMAIN waybill.unit_price AS bigint
  CONSTRAINT unit_price_range CHECK (VALUE BETWEEN 0 AND 9000000000000);

COMMENT ON DOMAIN waybill.unit_price IS 'In minor units, and so low that the greatest quantity times it is a bigint.';

CREATE DOMAIN waybill.quantity AS bigint
  CONSTRAINT quantity_range CHECK (VALUE BETWEEN 1 AND 1000000);

CREATE DOMAIN waybill.contact_field AS text COLLATE "C"
  CONSTRAINT contact_field_check CHECK (VALUE IN ('customer', 'shippingAddress', 'billingAddress'));

CREATE DOMAIN waybill.contact AS text
  CONSTRAINT contact_object CHECK (length(VALUE) <= 16384 AND json_typeof(VALUE::json) IN ('object', 'null'));

COMMENT ON DOMAIN waybill.contact IS 'JSON text of a person or an address; null says that there is none any more.';

CREATE TABLE waybill.orders (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  number            waybill.order_number NOT NULL,
  channel           waybill.channel NOT NULL,
  external_ref      waybill.reference,
  customer_ref      waybill.reference NOT NULL,
  status            text COLLATE "C" NOT NULL DEFAULT 'pending',
  version           int NOT NULL DEFAULT 1,
  currency          waybill.currency_code NOT NULL,
  subtotal          waybill.minor_units NOT NULL,
  discount          waybill.minor_units NOT NULL,
  tax               waybill.minor_units NOT NULL,
  shipping          waybill.minor_units NOT NULL,
  total             waybill.minor_units NOT NULL,
  metadata          waybill.metadata NOT NULL DEFAULT '{}',
  placed_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT orders_number_key UNIQUE (tenant_id, number),
  CONSTRAINT orders_external_ref_key UNIQUE (tenant_id, external_ref, channel),
  -- No domain: it would refuse an unknown state before the guard can say what is allowed.
  CONSTRAINT orders_status_check CHECK (status IN ('pending', 'confirmed', 'shipped', 'delivered', 'canceled'))
);

COMMENT ON COLUMN waybill.orders.transition_reason IS
  'An argument of an UPDATE that changes status: a trigger hands it to the history and empties it.';

-- What each index is for: the list by time placed (all, by status, by channel, of a customer), and by time changed.
-- Prefixes of number and external_ref use the unique keys. The primary key is made last: on a table without statistics
-- every index with the id in it seems equally good, the planner takes the youngest, and a session keeps that plan.
CREATE INDEX orders_placed_idx ON waybill.orders (tenant_id, placed_at, id);
CREATE INDEX orders_status_placed_idx ON waybill.orders (tenant_id, status, placed_at, id);
CREATE INDEX orders_channel_placed_idx ON waybill.orders (tenant_id, channel, placed_at, id);
CREATE INDEX orders_customer_placed_idx ON waybill.orders (tenant_id, customer_ref, placed_at, id);
CREATE INDEX orders_updated_idx ON waybill.orders (tenant_id, updated_at, id);
ALTER TABLE waybill.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id);

SELECT waybill.make_tenant_table('waybill.orders', 'an order is canceled, never deleted');

GRANT INSERT, UPDATE ON waybill.orders TO waybill_app;

CREATE TABLE waybill.order_lines (
  tenant_id        bigint NOT NULL,
  order_id         uuid NOT NULL,
  line_no          waybill.line_no NOT NULL,
  sku              waybill.sku NOT NULL,
  name             waybill.item_name NOT NULL,
  quantity         waybill.quantity NOT NULL,
  unit_price       waybill.unit_price NOT NULL,
  discount         waybill.minor_units NOT NULL,
  tax_rate_ppm     waybill.tax_rate_ppm NOT NULL,
  tax              waybill.minor_units NOT NULL,
  total            waybill.minor_units NOT NULL,
  shipped_quantity bigint NOT NULL DEFAULT 0,
  CONSTRAINT order_lines_pkey PRIMARY KEY (tenant_id, order_id, line_no),
  CONSTRAINT order_lines_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id)
);

SELECT waybill.make_tenant_table('waybill.order_lines', 'lines belong to their order', 'TRUNCATE');

GRANT SELECT ON waybill.order_lines TO waybill_audit;

CREATE TABLE waybill.order_contacts (
  tenant_id bigint NOT NULL,
  order_id  uuid NOT NULL,
  field     waybill.contact_field NOT NULL,
  version   int NOT NULL,
  salt      waybill.bytes32 NOT NULL,
  value     waybill.contact NOT NULL,
  digest    text NOT NULL,
  CONSTRAINT order_contacts_pkey PRIMARY KEY (tenant_id, order_id, field, version),
  CONSTRAINT order_contacts_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id)
);

COMMENT ON TABLE waybill.order_contacts IS
  'All personal data of orders: a row for each field group and the order''s version that set it; the JSON value null takes a group away.';

COMMENT ON COLUMN waybill.order_contacts.digest IS
  'audit.pii_digest of salt, field and value, in hexadecimal, as the order''s events hold it; a trigger computes it.';

SELECT waybill.make_tenant_table('waybill.order_contacts', 'contacts are kept in versions: waybill.patch_order adds one', 'UPDATE OR TRUNCATE');

GRANT SELECT, DELETE ON waybill.order_contacts TO waybill_audit;

CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by waybill.erase_customer, which leaves an event');

ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_erasure;

-- migrations/sql/orders/2-reading.sql

-- JSON is put together as text: concat looks up how to write a column once a statement, row_to_json for every value of a row.
CREATE VIEW waybill.order_line_texts WITH (security_invoker = true) AS
SELECT l.tenant_id, l.order_id, l.line_no,
       concat('{"lineNo":', l.line_no, ',"sku":', to_json(l.sku::text), ',"name":', to_json(l.name::text),
              ',"quantity":', l.quantity, ',"unitPrice":', l.unit_price, ',"discount":', l.discount,
              ',"taxRatePpm":', l.tax_rate_ppm, ',"tax":', l.tax, ',"total":', l.total,
              ',"shippedQuantity":', l.shipped_quantity, '}') AS json
FROM waybill.order_lines l;

COMMENT ON VIEW waybill.order_line_texts IS 'A line as the text of its JSON, for events and answers alike.';

GRANT SELECT ON waybill.order_line_texts TO waybill_app, waybill_audit;

CREATE FUNCTION waybill.order_snapshot(o waybill.orders) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN concat(
    '{"id":"', o.id, '","number":"', o.number, '","channel":"', o.channel,
    '","externalRef":', coalesce(to_json(o.external_ref::text)::text, 'null'), ',"customerRef":', to_json(o.customer_ref::text),
    ',"status":"', o.status, '","version":', o.version, ',"currency":"', o.currency, '","subtotal":', o.subtotal,
    ',"discount":', o.discount, ',"tax":', o.tax, ',"shipping":', o.shipping, ',"total":', o.total,
    ',"metadata":', o.metadata, ',"placedAt":"', to_char(o.placed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '","updatedAt":"', to_char(o.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    '","lines":', coalesce((
      SELECT '[' || string_agg(l.json, ',') || ']' FROM (
        SELECT t.json FROM waybill.order_line_texts t WHERE t.tenant_id = o.tenant_id AND t.order_id = o.id ORDER BY t.line_no) l), '[]'),
    ',"contacts":', coalesce((
      SELECT '{' || string_agg(concat('"', c.field, '":{"version":', c.version, ',"digest":"', c.digest, '"}'), ',') || '}' FROM (
        SELECT DISTINCT ON (x.field) x.field, x.version, x.digest FROM waybill.order_contacts x
        WHERE x.tenant_id = o.tenant_id AND x.order_id = o.id ORDER BY x.field DESC, x.version DESC) c), 'null'),
    '}');
END
$$;

COMMENT ON FUNCTION waybill.order_snapshot IS
  'An order as its events keep it, as JSON text: all that it is, with digests in the place of personal data.';

CREATE VIEW waybill.order_details WITH (security_invoker = true) AS
SELECT o.tenant_id, o.id, o.number, o.channel, o.external_ref, o.customer_ref, o.status, o.version, o.currency,
       o.subtotal, o.discount, o.tax, o.shipping, o.total, o.metadata, o.placed_at, o.updated_at,
       (SELECT coalesce('[' || string_agg(l.json, ',') || ']', '[]') FROM (
          SELECT t.json FROM waybill.order_line_texts t WHERE t.tenant_id = o.tenant_id AND t.order_id = o.id ORDER BY t.line_no) l) AS lines,
       c.customer, c.shipping_address, c.billing_address,
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = o.tenant_id AND e.stream = 'order/' || o.id AND e.version = o.version) AS event_hash
FROM waybill.orders o
CROSS JOIN LATERAL (
  SELECT max(latest.value) FILTER (WHERE latest.field = 'customer') AS customer,
         max(latest.value) FILTER (WHERE latest.field = 'shippingAddress') AS shipping_address,
         max(latest.value) FILTER (WHERE latest.field = 'billingAddress') AS billing_address
  FROM (SELECT DISTINCT ON (x.field) x.field, x.value FROM waybill.order_contacts x
        WHERE x.tenant_id = o.tenant_id AND x.order_id = o.id ORDER BY x.field DESC, x.version DESC) latest
) c;

COMMENT ON VIEW waybill.order_details IS
  'An order as the API shows it. Lines and contacts are the texts of their JSON, as they can be written into an answer.';

GRANT SELECT ON waybill.order_details TO waybill_app;

CREATE FUNCTION waybill.order_missing_values(p_tenant bigint, p_orders uuid[])
RETURNS TABLE (id uuid, field text, version bigint, state text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  -- OFFSET 0 keeps each subquery apart, so that it is run for each row, by its index.
  SELECT r.id, r.field, r.version, CASE WHEN c.salt IS NULL THEN 'missing' ELSE 'changed' END
  FROM (SELECT DISTINCT o.id, f.key AS field, (f.value ->> 'version')::int AS version, f.value ->> 'digest' AS digest
        FROM unnest(p_orders) AS o(id)
        CROSS JOIN LATERAL (SELECT x.body FROM audit.events x
                            WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || o.id OFFSET 0) e
        CROSS JOIN LATERAL jsonb_each(nullif(e.body::jsonb #> '{snapshot,contacts}', 'null'::jsonb)) f) r
  LEFT JOIN LATERAL (SELECT x.salt, x.value FROM waybill.order_contacts x
                     WHERE x.tenant_id = p_tenant AND x.order_id = r.id AND x.field = r.field AND x.version = r.version
                     OFFSET 0) c ON true
  WHERE CASE WHEN c.salt IS NULL
        THEN NOT EXISTS (SELECT FROM audit.events x WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || r.id
                           AND x.version > r.version AND x.type = 'customer.erased')
        ELSE audit.pii_digest(c.salt, r.field, c.value) <> r.digest END
$$;

COMMENT ON FUNCTION waybill.order_missing_values IS
  'Contacts whose digest stands in an event of these orders, but whose value is gone without an erasure, or is another one.';

GRANT EXECUTE ON FUNCTION waybill.order_missing_values TO waybill_audit;

-- migrations/sql/orders/3-guards.sql

CREATE FUNCTION waybill.require_order_amounts(p_tenant bigint, p_order uuid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order record;
  v_lines record;
BEGIN
  SELECT o.subtotal::bigint, o.discount::bigint, o.tax::bigint, (o.total - o.shipping)::bigint AS lines_total INTO v_order
  FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order;
  SELECT sum(l.quantity * l.unit_price)::bigint AS subtotal, sum(l.discount)::bigint AS discount,
         sum(l.tax)::bigint AS tax, sum(l.total)::bigint AS lines_total INTO v_lines
  FROM waybill.order_lines l WHERE l.tenant_id = p_tenant AND l.order_id = p_order;
  IF v_order IS DISTINCT FROM v_lines THEN
    RAISE EXCEPTION 'the amounts of order % are not the sums of its lines: % against %', p_order, v_order, v_lines
      USING ERRCODE = 'WB016', HINT = 'Use waybill.place_order and waybill.patch_order: they write an order and its lines together.';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.require_order_amounts IS
  'Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.';

CREATE FUNCTION waybill.check_order(p_new waybill.orders, p_old waybill.orders) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_new.total <> p_new.subtotal - p_new.discount + p_new.tax + p_new.shipping THEN
    PERFORM waybill.refuse_row('orders_total_adds_up', 'total = subtotal - discount + tax + shipping', p_new::text);
  END IF;
  IF p_old.status <> 'pending' AND (p_new.subtotal, p_new.discount, p_new.tax, p_new.shipping, p_new.total)
                                   IS DISTINCT FROM (p_old.subtotal, p_old.discount, p_old.tax, p_old.shipping, p_old.total) THEN
    RAISE EXCEPTION 'UPDATE on waybill.orders is refused: the amounts of an order are fixed once it is no longer pending'
      USING ERRCODE = 'WB002';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.check_order IS 'Rules of several columns of an order; the row before is null for a new one.';

CREATE FUNCTION waybill.guard_order_amounts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_lines record;
BEGIN
  IF TG_OP = 'UPDATE' AND current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.id::text
     AND NEW.subtotal = OLD.subtotal AND NEW.discount = OLD.discount AND NEW.tax = OLD.tax
     AND NEW.total - NEW.shipping = OLD.total - OLD.shipping THEN
    RETURN NULL;
  END IF;
  SELECT sum(l.quantity * l.unit_price) AS subtotal, sum(l.discount) AS discount, sum(l.tax) AS tax, sum(l.total) AS total
  INTO v_lines FROM waybill.order_lines l WHERE l.tenant_id = NEW.tenant_id AND l.order_id = NEW.id;
  -- The row is at hand. Only when it doesn't add up is it read again: a later trigger may have changed it.
  IF v_lines.total = NEW.total - NEW.shipping AND v_lines.subtotal = NEW.subtotal AND v_lines.discount = NEW.discount
     AND v_lines.tax = NEW.tax THEN
    RETURN NULL;
  END IF;
  PERFORM waybill.require_order_amounts(NEW.tenant_id, NEW.id);
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION waybill.guard_order_amounts IS
  'AFTER INSERT OR UPDATE … FOR EACH ROW of orders: the amounts are the sums of the lines that the same statement wrote.';

CREATE FUNCTION waybill.refuse_order_part(p_tenant bigint, p_order uuid, p_part text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_status text := (SELECT o.status FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order);
BEGIN
  IF v_status <> 'pending' THEN
    RAISE EXCEPTION 'the % of order % are fixed: it is %', p_part, p_order, v_status USING ERRCODE = 'WB015';
  END IF;
  RAISE EXCEPTION 'the % of order % are written together with the order', p_part, p_order
    USING ERRCODE = 'WB016', HINT = 'Use waybill.place_order and waybill.patch_order: they write an order and all of its parts together.';
END
$$;

COMMENT ON FUNCTION waybill.refuse_order_part IS
  'Says why lines or contacts of an order cannot be written apart from it.';

CREATE FUNCTION waybill.refuse_order_line(p_line waybill.order_lines) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_amount bigint := p_line.quantity * p_line.unit_price;
BEGIN
  IF v_amount > 9000000000000 THEN
    PERFORM waybill.refuse_row('order_lines_amount_range', 'quantity * unit_price <= 9000000000000', p_line::text);
  ELSIF p_line.discount > v_amount THEN
    PERFORM waybill.refuse_row('order_lines_discount_range', 'discount <= quantity * unit_price', p_line::text);
  ELSIF p_line.tax <> ((v_amount - p_line.discount) * p_line.tax_rate_ppm + 500000) / 1000000 THEN
    PERFORM waybill.refuse_row('order_lines_tax_half_up',
      'tax is (quantity * unit_price - discount) * tax_rate_ppm / 1000000, rounded half up', p_line::text);
  ELSIF p_line.total <> v_amount - p_line.discount + p_line.tax THEN
    PERFORM waybill.refuse_row('order_lines_total_adds_up', 'total = quantity * unit_price - discount + tax', p_line::text);
  ELSIF p_line.shipped_quantity NOT BETWEEN 0 AND p_line.quantity THEN
    PERFORM waybill.refuse_row('order_lines_shipped_range', 'shipped_quantity is from 0 to quantity', p_line::text);
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.refuse_order_line IS 'Refuses a line by the first rule of several columns that it breaks.';

CREATE FUNCTION waybill.guard_order_line() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_amount bigint;
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF current_setting('waybill.written_order', true) IS DISTINCT FROM OLD.order_id::text THEN
      PERFORM waybill.refuse_order_part(OLD.tenant_id, OLD.order_id, 'lines');
    END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.tenant_id, NEW.order_id, NEW.line_no) IS DISTINCT FROM (OLD.tenant_id, OLD.order_id, OLD.line_no) THEN
      RAISE EXCEPTION 'UPDATE on waybill.order_lines is refused: a line stays in its order and place' USING ERRCODE = 'WB002';
    END IF;
  END IF;
  IF current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.order_id::text
     AND (TG_OP = 'INSERT'
          OR (NEW.sku, NEW.name, NEW.quantity, NEW.unit_price, NEW.discount, NEW.tax_rate_ppm, NEW.tax, NEW.total)
             IS DISTINCT FROM (OLD.sku, OLD.name, OLD.quantity, OLD.unit_price, OLD.discount, OLD.tax_rate_ppm, OLD.tax, OLD.total)) THEN
    PERFORM waybill.refuse_order_part(NEW.tenant_id, NEW.order_id, 'lines');
  END IF;
  v_amount := NEW.quantity * NEW.unit_price;
  IF NOT coalesce(v_amount <= 9000000000000 AND NEW.discount <= v_amount
                  AND NEW.tax = ((v_amount - NEW.discount) * NEW.tax_rate_ppm + 500000) / 1000000
                  AND NEW.total = v_amount - NEW.discount + NEW.tax AND NEW.shipped_quantity BETWEEN 0 AND NEW.quantity, false) THEN
    PERFORM waybill.refuse_order_line(NEW);
  END IF;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_order_line IS
  'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH ROW of lines. What was ordered is written by the commands alone, which name the order in waybill.written_order while they write it.';

CREATE FUNCTION waybill.guard_order_contact() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('waybill.written_order', true) IS DISTINCT FROM NEW.order_id::text THEN
    PERFORM waybill.refuse_order_part(NEW.tenant_id, NEW.order_id, 'contacts');
  END IF;
  NEW.digest := audit.pii_digest(NEW.salt, NEW.field, NEW.value);
  RETURN NEW;
END
$$;

CREATE TRIGGER order_lines_20_guard BEFORE INSERT OR UPDATE OR DELETE ON waybill.order_lines
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_line();

CREATE TRIGGER order_contacts_20_guard BEFORE INSERT ON waybill.order_contacts
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_contact();

CREATE TRIGGER orders_40_amounts AFTER INSERT OR UPDATE ON waybill.orders
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_amounts();

-- migrations/sql/orders/4-machine.sql

INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('order', 'waybill.orders', 'pending');

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason) VALUES
  ('order', 'pending', 'confirmed', '{operator,admin}', false),
  ('order', 'confirmed', 'shipped', '{operator,admin}', false),
  ('order', 'shipped', 'delivered', '{operator,admin}', false),
  ('order', 'pending', 'canceled', '{operator,admin}', true),
  ('order', 'confirmed', 'canceled', '{operator,admin}', true);

SELECT waybill.attach_machine('order',
  p_fixed => '{tenant_id,id,number,channel,external_ref,customer_ref,currency,placed_at}',
  p_rules => 'waybill.check_order',
  p_erasure_type => 'customer.erased',
  p_parts => ',"lines":');

-- migrations/sql/orders/5-commands.sql

CREATE FUNCTION waybill.place_order(
  p_tenant bigint, p_id uuid, p_number text, p_channel text, p_external_ref text, p_customer_ref text, p_currency text,
  p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_metadata jsonb,
  p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[],
  p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[],
  p_fields text[], p_values text[], p_salts bytea[],
  OUT status text, OUT version int, OUT placed_at timestamptz, OUT metadata jsonb, OUT event_hash text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_taken uuid;
BEGIN
  IF p_external_ref IS NOT NULL THEN
    SELECT o.id INTO v_taken FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.external_ref = p_external_ref AND o.channel = p_channel;
    IF FOUND THEN
      RAISE EXCEPTION 'channel % has an order % already: %', p_channel, p_external_ref, v_taken
        USING ERRCODE = 'WB017', DETAIL = jsonb_build_object('orderId', v_taken)::text;
    END IF;
  END IF;
  placed_at := clock_timestamp();
  PERFORM set_config('waybill.written_order', p_id::text, true);
  WITH new_lines AS (
    INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
    SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
    FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
      WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
  ), new_contacts AS (
    INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
    SELECT p_tenant, p_id, c.field, 1, c.salt, c.value FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
  )
  INSERT INTO waybill.orders AS o (tenant_id, id, number, channel, external_ref, customer_ref, currency,
                                        subtotal, discount, tax, shipping, total, metadata, placed_at, updated_at)
  VALUES (p_tenant, p_id, p_number, p_channel, p_external_ref, p_customer_ref, p_currency,
          p_subtotal, p_discount, p_tax, p_shipping, p_total, p_metadata, place_order.placed_at, place_order.placed_at)
  RETURNING o.status, o.version, o.metadata INTO place_order.status, place_order.version, place_order.metadata;
  PERFORM set_config('waybill.written_order', '', true);
  SELECT encode(e.event_hash, 'hex') INTO place_order.event_hash FROM audit.events e
  WHERE e.tenant_id = p_tenant AND e.stream = 'order/' || p_id AND e.version = place_order.version;
END
$$;

COMMENT ON FUNCTION waybill.place_order IS
  'Places an order with its lines and contacts. Amounts in minor units; arrays are parallel, one entry a line or contact. Returns what the caller doesn''t know: state, version and time, the metadata as they are stored, the hash of its event.';

CREATE FUNCTION waybill.lock_order(p_tenant bigint, p_id uuid, p_expected_version int) RETURNS waybill.orders
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders;
BEGIN
  PERFORM waybill.require_key();
  SELECT o.* INTO v_order FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_id FOR NO KEY UPDATE;
  IF v_order.version <> p_expected_version THEN
    RAISE EXCEPTION 'order % is at version %, not %', p_id, v_order.version, p_expected_version
      USING ERRCODE = 'WB012', DETAIL = jsonb_build_object('current', v_order.version)::text;
  END IF;
  RETURN v_order;
END
$$;

COMMENT ON FUNCTION waybill.lock_order IS
  'Locks an order until the transaction ends and checks its version, unless that is null. A row of nulls when there is none.';

CREATE FUNCTION waybill.lock_order_details(p_tenant bigint, p_id uuid, p_expected_version int) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Two statements: one that both waits for the lock and reads would show what was there before it waited.
  PERFORM waybill.lock_order(p_tenant, p_id, p_expected_version);
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.lock_order_details IS
  'Locks an order as lock_order does and returns it; no row when there is none.';

CREATE FUNCTION waybill.transition_order(
  p_tenant bigint, p_id uuid, p_to text, p_reason text, p_expected_version int, p_metadata jsonb) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders;
BEGIN
  LOOP
    -- The UPDATE waits for the order's row and then asks its conditions again, so it needs no lock before it.
    UPDATE waybill.orders o SET status = p_to, transition_reason = p_reason, metadata = coalesce(p_metadata, o.metadata)
    WHERE o.tenant_id = p_tenant AND o.id = p_id AND o.status <> p_to AND o.version = coalesce(p_expected_version, o.version);
    EXIT WHEN FOUND;
    v_order := waybill.lock_order(p_tenant, p_id, p_expected_version);
    EXIT WHEN v_order.id IS NULL;
    IF v_order.status = p_to THEN
      RAISE EXCEPTION 'order % is already %', p_id, p_to
        USING ERRCODE = 'WB011', DETAIL = jsonb_build_object('state', p_to)::text;
    END IF;
    -- Somebody moved it on while the lock was waited for: again, with the lock.
  END LOOP;
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.transition_order IS
  'Moves an order to another state and returns it; no row when there is no such order. Metadata is replaced unless null.';

CREATE FUNCTION waybill.patch_order(
  p_tenant bigint, p_id uuid, p_expected_version int, p_metadata jsonb,
  p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint,
  p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[],
  p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[],
  p_fields text[], p_values text[], p_salts bytea[]) RETURNS SETOF waybill.order_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders := waybill.lock_order(p_tenant, p_id, p_expected_version);
BEGIN
  IF p_skus IS NOT NULL AND v_order.status <> 'pending' THEN
    RAISE EXCEPTION 'the lines of order % are fixed: it is %', p_id, v_order.status USING ERRCODE = 'WB015';
  END IF;
  IF cardinality(p_fields) > 0 AND v_order.status NOT IN ('pending', 'confirmed') THEN
    RAISE EXCEPTION 'the contacts of order % are fixed: it is %', p_id, v_order.status USING ERRCODE = 'WB015';
  END IF;
  PERFORM set_config('waybill.written_order', p_id::text, true);
  WITH kept_lines AS (
    INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
    SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
    FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
      WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
    ON CONFLICT (tenant_id, order_id, line_no) DO UPDATE
    SET sku = excluded.sku, name = excluded.name, quantity = excluded.quantity, unit_price = excluded.unit_price,
        discount = excluded.discount, tax_rate_ppm = excluded.tax_rate_ppm, tax = excluded.tax, total = excluded.total
  ), dropped_lines AS (
    DELETE FROM waybill.order_lines l
    WHERE l.tenant_id = p_tenant AND l.order_id = p_id AND l.line_no > cardinality(p_skus)
  ), new_contacts AS (
    INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
    SELECT p_tenant, p_id, c.field, v_order.version + 1, c.salt, c.value
    FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
  )
  UPDATE waybill.orders o
  SET version = o.version + 1, metadata = coalesce(p_metadata, o.metadata), subtotal = coalesce(p_subtotal, o.subtotal),
      discount = coalesce(p_discount, o.discount), tax = coalesce(p_tax, o.tax),
      shipping = coalesce(p_shipping, o.shipping), total = coalesce(p_total, o.total)
  WHERE o.tenant_id = p_tenant AND o.id = p_id;
  PERFORM set_config('waybill.written_order', '', true);
  RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
END
$$;

COMMENT ON FUNCTION waybill.patch_order IS
  'Changes what may still change of an order, as one version, and returns it. Null leaves a part as it is; contacts are parallel arrays.';

GRANT EXECUTE ON FUNCTION waybill.place_order, waybill.lock_order_details, waybill.transition_order, waybill.patch_order TO waybill_app;

-- migrations/sql/orders/6-erasure.sql

GRANT UPDATE (version) ON waybill.orders TO waybill_audit;

SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.erase_contacts(p_tenant bigint, p_orders uuid[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_erased int;
BEGIN
  -- One statement: contacts go only together with the version whose event tells of it.
  WITH gone AS (
    DELETE FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = ANY (p_orders) RETURNING c.order_id
  )
  UPDATE waybill.orders o SET version = o.version + 1
  WHERE o.tenant_id = p_tenant AND o.id IN (SELECT g.order_id FROM gone g);
  GET DIAGNOSTICS v_erased = ROW_COUNT;
  RETURN v_erased;
END
$$;

COMMENT ON FUNCTION audit.erase_contacts IS
  'Deletes the contacts of orders in all their versions, with their salts, and appends customer.erased to each order''s stream. For waybill.erase_customer.';

GRANT EXECUTE ON FUNCTION audit.erase_contacts TO waybill_owner;

RESET ROLE;

CREATE FUNCTION waybill.erase_customer(p_tenant bigint, p_customer_ref text, p_limit int)
RETURNS TABLE (known boolean, erased int, remaining boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_ids uuid[];
BEGIN
  IF NOT 'admin' = ANY (string_to_array(coalesce(current_setting('waybill.roles', true), ''), ',')) THEN
    RAISE EXCEPTION 'Erasing a customer takes the role admin'
      USING ERRCODE = 'WB013', DETAIL = '{"roles": ["admin"]}', HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
  -- Locked in the order of their ids, as everybody locks who locks several.
  SELECT array_agg(l.id) INTO v_ids FROM (
    SELECT o.id FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref
      AND EXISTS (SELECT FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = o.id)
    ORDER BY o.id LIMIT p_limit FOR NO KEY UPDATE) l;
  erased := CASE WHEN v_ids IS NULL THEN 0 ELSE audit.erase_contacts(p_tenant, v_ids) END;
  -- Answers kept under an idempotency key show the same personal data.
  PERFORM waybill.erase_answers(p_tenant, (SELECT array_agg('order/' || i) FROM unnest(v_ids) i));
  known := EXISTS (SELECT FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref);
  remaining := EXISTS (
    SELECT FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref
      AND EXISTS (SELECT FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = o.id));
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION waybill.erase_customer IS
  'Erases the personal data of at most p_limit of a customer''s orders. Says whether there is such a customer, how many orders were erased, and whether some are left.';

GRANT EXECUTE ON FUNCTION waybill.erase_customer TO waybill_app;

-- migrations/sql/idempotency/1-tables.sql

-- A bound within the expression, such as {1,255}, makes it many times as dear as a length beside it.
CREATE DOMAIN waybill.idempotency_key AS text COLLATE "C"
  CONSTRAINT idempotency_key_format CHECK (length(VALUE) <= 255 AND VALUE ~ '^[\x21-\x2b\x2d-\x7e]+$');

CREATE DOMAIN waybill.key_status AS text COLLATE "C"
  CONSTRAINT key_status_check CHECK (VALUE IN ('processing', 'completed', 'failed'));

CREATE TABLE waybill.idempotency_keys (
  tenant_id        bigint NOT NULL,
  idempotency_key  waybill.idempotency_key NOT NULL,
  request_hash     waybill.bytes32 NOT NULL,
  status           waybill.key_status NOT NULL,
  lease_token      uuid,
  lease_until      timestamptz,
  attempt          int NOT NULL DEFAULT 1,
  call_started_at  timestamptz,
  provider_ref     text,
  resource         text COLLATE "C",
  response_status  smallint,
  response_headers waybill.json_object,
  response_body    bytea,
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz,
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, idempotency_key)
);

COMMENT ON TABLE waybill.idempotency_keys IS
  'What was answered under an Idempotency-Key. A row of a request whose effects are all in this database is never seen as processing: key, effect and answer are committed together.';

COMMENT ON COLUMN waybill.idempotency_keys.response_body IS
  'The bytes as they were sent; empty for an answer without a body, null once they were erased.';

COMMENT ON COLUMN waybill.idempotency_keys.resource IS
  'What the answer shows, such as order/<id>: erasing a person blanks the answers that show their orders.';

COMMENT ON COLUMN waybill.idempotency_keys.lease_until IS
  'While a worker is away on a call to another system the key is its own until then; afterwards another may take it over.';

-- Partial, so that no statement by key can be planned with it: on a table without statistics it looks as good as the
-- primary key, and reads all of a tenant's rows.
CREATE INDEX idempotency_keys_expires_idx ON waybill.idempotency_keys (tenant_id, expires_at) WHERE status <> 'processing';

CREATE INDEX idempotency_keys_leases_idx ON waybill.idempotency_keys (tenant_id, lease_until) WHERE lease_token IS NOT NULL;

SELECT waybill.make_tenant_table('waybill.idempotency_keys', 'without its keys a retry would do everything twice', 'TRUNCATE');

CREATE FUNCTION waybill.refuse_idempotency_key(k waybill.idempotency_keys) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (k.lease_token IS NULL) <> (k.lease_until IS NULL) THEN
    PERFORM waybill.refuse_row('idempotency_keys_lease_whole', 'a lease has a token and an end, or there is none', k::text);
  ELSIF k.attempt < 1 THEN
    PERFORM waybill.refuse_row('idempotency_keys_attempt_positive', 'attempts count from 1', k::text);
  ELSIF k.status = 'processing' THEN
    IF num_nonnulls(k.response_status, k.response_headers, k.response_body, k.expires_at) > 0 THEN
      PERFORM waybill.refuse_row('idempotency_keys_answer_final', 'a key that is in use has no answer yet', k::text);
    ELSIF k.call_started_at IS NOT NULL AND k.lease_token IS NULL THEN
      PERFORM waybill.refuse_row('idempotency_keys_call_leased', 'whoever makes a call has a lease', k::text);
    END IF;
  ELSIF k.lease_token IS NOT NULL THEN
    PERFORM waybill.refuse_row('idempotency_keys_lease_processing', 'an answered key has no lease', k::text);
  ELSIF num_nulls(k.response_status, k.response_headers, k.expires_at) > 0 THEN
    PERFORM waybill.refuse_row('idempotency_keys_answer_final', 'an answered key has status, headers and an end', k::text);
  ELSIF (k.status = 'completed') <> (k.response_status / 100 = 2) OR (k.status = 'failed') <> (k.response_status / 100 = 4) THEN
    PERFORM waybill.refuse_row('idempotency_keys_answer_kind', 'completed is answered by 2xx, failed by 4xx', k::text);
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.refuse_idempotency_key IS 'Refuses a key by the first rule of several columns that it breaks.';

CREATE FUNCTION waybill.guard_idempotency_key() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.status = 'processing' OR OLD.expires_at > clock_timestamp() THEN
      RAISE EXCEPTION 'DELETE on waybill.idempotency_keys is refused: only finished keys that have expired are swept'
        USING ERRCODE = 'WB002';
    END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.tenant_id, NEW.idempotency_key) IS DISTINCT FROM (OLD.tenant_id, OLD.idempotency_key) THEN
      RAISE EXCEPTION 'UPDATE on waybill.idempotency_keys is refused: a key stays with its tenant' USING ERRCODE = 'WB002';
    END IF;
  END IF;
  -- The rules as a new answered key keeps them, which is nearly every row; any other is asked rule by rule.
  IF TG_OP = 'INSERT' AND NEW.lease_token IS NULL AND NEW.lease_until IS NULL AND NEW.response_headers IS NOT NULL
     AND NEW.expires_at IS NOT NULL AND NEW.attempt = 1
     AND ((NEW.status = 'completed' AND NEW.response_status / 100 = 2) OR (NEW.status = 'failed' AND NEW.response_status / 100 = 4)) THEN
    RETURN NEW;
  END IF;
  PERFORM waybill.refuse_idempotency_key(NEW);
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_idempotency_key IS
  'BEFORE INSERT OR UPDATE OR DELETE … FOR EACH ROW of keys: rules of several columns; a key stays with its tenant, and goes only when it has expired.';

CREATE TRIGGER idempotency_keys_20_guard BEFORE INSERT OR UPDATE OR DELETE ON waybill.idempotency_keys
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_idempotency_key();

CREATE TABLE waybill.idempotency_policies (
  tenant_id  bigint NOT NULL,
  ttl        interval,
  is_default boolean NOT NULL DEFAULT false,
  id         uuid NOT NULL DEFAULT gen_random_uuid(),
  version    int NOT NULL DEFAULT 1,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT idempotency_policies_pkey PRIMARY KEY (tenant_id),
  CONSTRAINT idempotency_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants (id),
  CONSTRAINT idempotency_policies_ttl_positive CHECK (ttl > interval '0'),
  CONSTRAINT idempotency_policies_default CHECK (NOT is_default OR ttl IS NULL)
);

COMMENT ON TABLE waybill.idempotency_policies IS
  'How long a tenant''s keys are remembered, counted from the answer; null is for ever. A tenant without a row, or with is_default, has the service''s IDEMPOTENCY_TTL.';

SELECT waybill.make_tenant_table('waybill.idempotency_policies', 'set is_default instead: its history refers to this row');

CREATE FUNCTION waybill.idempotency_policy_snapshot(p waybill.idempotency_policies) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', p.id, 'isDefault', p.is_default, 'ttlSeconds', extract(epoch FROM p.ttl)::bigint,
                           'version', p.version, 'updatedAt', waybill.json_time(p.updated_at));
END
$$;

COMMENT ON FUNCTION waybill.idempotency_policy_snapshot IS
  'How long keys are remembered, as events keep it: ttlSeconds null with isDefault false is for ever.';

SELECT waybill.attach_stream('idempotency_policy', 'waybill.idempotency_policies');

-- migrations/sql/idempotency/2-keys.sql

CREATE FUNCTION waybill.claim_key(
  p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text, p_key text, p_hash bytea,
  p_lease_token uuid, p_lease interval, p_key_digest text DEFAULT NULL,
  OUT outcome text, OUT retry_after int, OUT claimed_at timestamptz,
  OUT answer_status smallint, OUT answer_headers jsonb, OUT answer_body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_key waybill.idempotency_keys;
  v_locked boolean;
  v_now timestamptz := clock_timestamp();
BEGIN
  PERFORM waybill.set_context(p_tenant, p_actor, p_roles, p_request_id, p_key_digest);
  v_locked := pg_try_advisory_xact_lock(hashtextextended(p_key, p_tenant));
  PERFORM set_config('waybill.locked_key', CASE WHEN v_locked THEN p_key ELSE '' END, true);
  LOOP
    -- A statement of its own has a snapshot of its own: with the lock it sees whatever its last holder has committed.
    SELECT k.* INTO v_key FROM waybill.idempotency_keys k WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key;
    IF NOT FOUND THEN
      IF NOT v_locked THEN
        outcome := waybill.refuse_writes('in_flight');
        RETURN;
      END IF;
      -- Without a lease the row is written once, by complete_key: nobody else can have the key before this transaction ends.
      IF p_lease_token IS NOT NULL THEN
        INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, lease_token, lease_until, created_at)
        VALUES (p_tenant, p_key, p_hash, 'processing', p_lease_token, v_now + p_lease, v_now);
      END IF;
      outcome := 'claimed';
      RETURN;
    END IF;

    IF v_key.expires_at <= v_now THEN
      IF NOT v_locked THEN
        outcome := waybill.refuse_writes('in_flight');
        RETURN;
      END IF;
      DELETE FROM waybill.idempotency_keys k
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.expires_at <= v_now;
      CONTINUE;
    END IF;

    IF v_key.request_hash <> p_hash THEN
      outcome := waybill.refuse_writes('reused');
      RETURN;
    END IF;

    IF v_key.status = 'processing' THEN
      -- Whoever has a lease may be away on a call, so only a caller who brings a lease may take over from it.
      IF NOT v_locked OR v_key.lease_until > v_now OR (v_key.lease_token IS NOT NULL AND p_lease_token IS NULL) THEN
        outcome := waybill.refuse_writes('in_flight');
        retry_after := greatest(1, ceil(extract(epoch FROM v_key.lease_until - v_now)));
        RETURN;
      END IF;
      UPDATE waybill.idempotency_keys k
      SET lease_token = p_lease_token, lease_until = v_now + p_lease, attempt = k.attempt + 1
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
        AND k.lease_token IS NOT DISTINCT FROM v_key.lease_token AND k.lease_until IS NOT DISTINCT FROM v_key.lease_until;
      CONTINUE WHEN NOT FOUND; -- its worker finished after all
      outcome := CASE WHEN v_key.lease_token IS NULL THEN 'claimed' ELSE 'taken_over' END;
      RETURN;
    END IF;

    outcome := waybill.refuse_writes(CASE WHEN v_key.response_body IS NULL THEN 'erased' ELSE 'replay' END);
    claimed_at := v_key.created_at;
    answer_status := v_key.response_status;
    answer_headers := v_key.response_headers;
    answer_body := v_key.response_body;
    RETURN;
  END LOOP;
END
$$;

COMMENT ON FUNCTION waybill.claim_key IS
  'Sets the context and claims a key for this transaction. outcome: claimed, taken_over (from a lapsed lease), replay (with the answer), reused, in_flight, erased. A lease is given for work that goes on after COMMIT.';

CREATE FUNCTION waybill.complete_key(
  p_tenant bigint, p_key text, p_hash bytea, p_lease_token uuid, p_status smallint, p_headers jsonb, p_body bytea,
  p_resource text, p_default_ttl interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_status text := CASE WHEN p_status < 300 THEN 'completed' ELSE 'failed' END;
  v_now timestamptz := clock_timestamp();
  v_expires_at timestamptz;
BEGIN
  SELECT coalesce(v_now + p.ttl, 'infinity') INTO v_expires_at FROM waybill.idempotency_policies p
  WHERE p.tenant_id = p_tenant AND NOT p.is_default;
  IF NOT FOUND THEN
    v_expires_at := coalesce(v_now + p_default_ttl, 'infinity');
  END IF;
  IF p_lease_token IS NULL THEN
    -- Nothing, where the transaction that claimed the key was another one.
    INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, response_status,
                                          response_headers, response_body, resource, created_at, expires_at)
    SELECT p_tenant, p_key, p_hash, v_status, p_status, p_headers, p_body, p_resource, now(), v_expires_at
    WHERE current_setting('waybill.locked_key', true) = p_key;
  ELSE
    UPDATE waybill.idempotency_keys k
    SET status = v_status, lease_token = NULL, lease_until = NULL, response_status = p_status,
        response_headers = p_headers, response_body = p_body, resource = p_resource, expires_at = v_expires_at
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
      AND k.lease_token = p_lease_token;
  END IF;
  IF NOT FOUND THEN
    -- An error, so that the COMMIT behind it becomes a ROLLBACK of everything else, too.
    RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.complete_key IS
  'Stores the answer under a key that this transaction has claimed (by the request''s hash) or that its worker holds (by the lease). The default time to live is for tenants without a policy; null is for ever.';

GRANT EXECUTE ON FUNCTION waybill.claim_key, waybill.complete_key TO waybill_app;

-- migrations/sql/idempotency/3-calls.sql

CREATE FUNCTION waybill.start_call(p_tenant bigint, p_key text, p_lease_token uuid, p_resource text, p_provider_ref text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE waybill.idempotency_keys k
  SET call_started_at = clock_timestamp(), resource = p_resource, provider_ref = p_provider_ref
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.start_call IS
  'Puts on record, in the transaction that claimed the key, that a call is about to be made: of what, and under which name the other system knows it.';

CREATE FUNCTION waybill.put_back_key(p_tenant bigint, p_key text, p_lease_token uuid, p_wait interval) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE waybill.idempotency_keys k SET lease_until = clock_timestamp() + p_wait
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token
$$;

COMMENT ON FUNCTION waybill.put_back_key IS
  'Ends a lease early, for a call whose result is not known yet: after the wait a retry or the recoverer takes over.';

CREATE FUNCTION waybill.take_abandoned_key(
  p_tenant bigint, p_lease_token uuid, p_lease interval, OUT key text, OUT resource text, OUT provider_ref text,
  OUT call_started_at timestamptz, OUT attempt int)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE waybill.idempotency_keys k
  SET lease_token = p_lease_token, lease_until = clock_timestamp() + p_lease, attempt = k.attempt + 1
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = (
    SELECT e.idempotency_key FROM waybill.idempotency_keys e
    WHERE e.tenant_id = p_tenant AND e.lease_token IS NOT NULL AND e.lease_until <= statement_timestamp()
      AND e.call_started_at IS NOT NULL
    ORDER BY e.lease_until LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING k.idempotency_key, k.resource, k.provider_ref, k.call_started_at, k.attempt
$$;

COMMENT ON FUNCTION waybill.take_abandoned_key IS
  'Takes over one key whose lease has lapsed while its call was under way; nulls when there is none. Workers don''t wait for each other.';

GRANT EXECUTE ON FUNCTION waybill.start_call, waybill.put_back_key, waybill.take_abandoned_key TO waybill_app;

-- migrations/sql/idempotency/4-upkeep.sql

CREATE FUNCTION waybill.sweep_keys(p_tenant bigint, p_limit int, OUT swept int, OUT backlog int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('waybill.sweep_keys'), hashint8(p_tenant)) THEN
    RETURN; -- another process sweeps this tenant
  END IF;
  PERFORM waybill.set_context(p_tenant, NULL, ARRAY['system'], 'sweep_keys');
  PERFORM waybill.set_context(p_tenant, waybill.system_user(p_tenant), ARRAY['system'], 'sweep_keys');
  -- Materialized: as a plain subquery it may run more than once within a join, and take more than a batch.
  WITH expired AS MATERIALIZED (
    SELECT e.idempotency_key FROM waybill.idempotency_keys e
    WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
    ORDER BY e.expires_at LIMIT least(p_limit, 10000) FOR UPDATE SKIP LOCKED
  )
  DELETE FROM waybill.idempotency_keys k USING expired
  WHERE k.tenant_id = p_tenant AND k.idempotency_key = expired.idempotency_key;
  GET DIAGNOSTICS swept = ROW_COUNT;
  SELECT count(*) INTO backlog FROM (
    SELECT FROM waybill.idempotency_keys e WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
    LIMIT 100000) rest;
END
$$;

COMMENT ON FUNCTION waybill.sweep_keys IS
  'Removes one batch of a tenant''s expired keys, oldest first, as the tenant''s system user. swept is null when another process is at it; backlog counts at most 100000.';

CREATE FUNCTION waybill.erase_answers(p_tenant bigint, p_resources text[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_erased int;
BEGIN
  UPDATE waybill.idempotency_keys k SET response_body = NULL
  WHERE k.tenant_id = p_tenant AND k.resource = ANY (p_resources) AND k.response_body IS NOT NULL;
  GET DIAGNOSTICS v_erased = ROW_COUNT;
  RETURN v_erased;
END
$$;

COMMENT ON FUNCTION waybill.erase_answers IS
  'Blanks every stored answer that shows one of these resources (order/<id>). Belongs into the transaction that erases the person; one pass over the tenant''s keys, however many resources.';

GRANT EXECUTE ON FUNCTION waybill.sweep_keys, waybill.erase_answers TO waybill_app;

-- migrations/sql/payments/1-tables.sql

CREATE DOMAIN waybill.attempt_status AS text COLLATE "C"
  CONSTRAINT attempt_status_check CHECK (VALUE IN ('processing', 'succeeded', 'refused', 'needs_reconciliation'));

CREATE DOMAIN waybill.provider_operation AS text COLLATE "C"
  CONSTRAINT provider_operation_check CHECK (VALUE IN ('authorize', 'capture', 'void', 'refund'));

CREATE DOMAIN waybill.event_outcome AS text COLLATE "C"
  CONSTRAINT event_outcome_check CHECK (VALUE IN ('applied', 'nothing-to-do', 'conflict', 'unknown'));

CREATE DOMAIN waybill.fact_subject AS text COLLATE "C"
  CONSTRAINT fact_subject_check CHECK (VALUE IN ('payment', 'refund'));

CREATE DOMAIN waybill.provider_fact AS text COLLATE "C"
  CONSTRAINT provider_fact_check CHECK (VALUE IN ('authorized', 'declined', 'captured', 'voided', 'succeeded', 'failed'));

CREATE DOMAIN waybill.refund_cause AS text COLLATE "C"
  CONSTRAINT refund_cause_check CHECK (VALUE IN ('request', 'provider', 'dispute'));

COMMENT ON DOMAIN waybill.refund_cause IS
  'Who gave the money back: a request of ours, somebody at the provider without us, or a bank for a customer who disputes the payment.';

CREATE DOMAIN waybill.provider_name AS text COLLATE "C"
  CONSTRAINT provider_name_format CHECK (length(VALUE) <= 32 AND VALUE ~ '^[a-z][a-z0-9_-]*$');

CREATE DOMAIN waybill.provider_text AS text COLLATE "C"
  CONSTRAINT provider_text_length CHECK (length(VALUE) BETWEEN 1 AND 255);

COMMENT ON DOMAIN waybill.provider_text IS 'What a provider calls something of its own: a payment, a method, an event.';

CREATE DOMAIN waybill.provider_key AS text COLLATE "C"
  CONSTRAINT provider_key_format CHECK (length(VALUE) = 64 AND VALUE ~ '^[0-9a-f]+$');

CREATE DOMAIN waybill.decline_code AS text COLLATE "C"
  CONSTRAINT decline_code_length CHECK (length(VALUE) BETWEEN 1 AND 100);

CREATE TABLE waybill.payments (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  order_id          uuid NOT NULL,
  provider          waybill.provider_name NOT NULL,
  provider_ref      waybill.provider_text,
  status            text COLLATE "C" NOT NULL DEFAULT 'processing',
  version           int NOT NULL DEFAULT 1,
  currency          waybill.currency_code NOT NULL,
  amount            waybill.minor_units NOT NULL,
  tax               waybill.minor_units NOT NULL,
  authorized        waybill.minor_units NOT NULL DEFAULT 0,
  captured          waybill.minor_units NOT NULL DEFAULT 0,
  captured_tax      waybill.minor_units NOT NULL DEFAULT 0,
  refunding         waybill.minor_units NOT NULL DEFAULT 0,
  refunding_tax     waybill.minor_units NOT NULL DEFAULT 0,
  refunded          waybill.minor_units NOT NULL DEFAULT 0,
  refunded_tax      waybill.minor_units NOT NULL DEFAULT 0,
  decline_code      waybill.decline_code,
  conflicts         int NOT NULL DEFAULT 0,
  created_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT payments_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT payments_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id),
  CONSTRAINT payments_provider_ref_key UNIQUE (tenant_id, provider, provider_ref),
  CONSTRAINT payments_status_check CHECK (status IN ('processing', 'authorized', 'declined', 'capturing', 'captured',
    'voiding', 'voided', 'refunded', 'needs_reconciliation')),
  CONSTRAINT payments_amount_range CHECK (amount >= 1 AND tax <= amount),
  CONSTRAINT payments_authorized_within_amount CHECK (authorized <= amount),
  CONSTRAINT payments_captured_within_authorized CHECK (captured BETWEEN 0 AND authorized
    AND captured_tax BETWEEN 0 AND tax AND captured - captured_tax BETWEEN 0 AND amount - tax),
  CONSTRAINT payments_conflicts_counted CHECK (conflicts >= 0),
  CONSTRAINT payments_refunded_within_captured CHECK (
    refunded >= 0 AND refunding >= 0 AND refunded + refunding <= captured
    AND refunded_tax >= 0 AND refunding_tax >= 0 AND refunded_tax + refunding_tax <= captured_tax
    AND refunded >= refunded_tax AND refunding >= refunding_tax
    AND (refunded - refunded_tax) + (refunding - refunding_tax) <= captured - captured_tax)
);

COMMENT ON COLUMN waybill.payments.refunding IS
  'Promised to refunds that are under way; what is left to refund is captured - refunded - refunding.';

COMMENT ON COLUMN waybill.payments.conflicts IS
  'How many rows of payment_conflicts are open. Like a live payment, one with conflicts keeps its order from being canceled.';

CREATE UNIQUE INDEX payments_live_key ON waybill.payments (tenant_id, order_id)
  WHERE status NOT IN ('declined', 'voided', 'refunded');

COMMENT ON INDEX waybill.payments_live_key IS
  'At most one live payment an order, whatever becomes of idempotency keys. Every state that holds money or may yet is live.';

SELECT waybill.make_tenant_table('waybill.payments', 'money that moved is never forgotten');


CREATE TABLE waybill.refunds (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  payment_id        uuid NOT NULL,
  status            text COLLATE "C" NOT NULL DEFAULT 'processing',
  version           int NOT NULL DEFAULT 1,
  amount            waybill.minor_units NOT NULL,
  tax               waybill.minor_units NOT NULL,
  reason            waybill.reason,
  cause             waybill.refund_cause NOT NULL DEFAULT 'request',
  provider_ref      waybill.provider_text,
  decline_code      waybill.decline_code,
  created_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT refunds_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT refunds_status_check CHECK (status IN ('processing', 'succeeded', 'failed', 'needs_reconciliation')),
  CONSTRAINT refunds_amount_range CHECK (amount >= 1 AND tax <= amount)
);

CREATE INDEX refunds_payment_idx ON waybill.refunds (tenant_id, payment_id, created_at, id);

CREATE UNIQUE INDEX refunds_provider_ref_key ON waybill.refunds (tenant_id, payment_id, provider_ref);

ALTER TABLE waybill.refunds ADD CONSTRAINT refunds_pkey PRIMARY KEY (tenant_id, id);

SELECT waybill.make_tenant_table('waybill.refunds', 'money that moved is never forgotten');


CREATE TABLE waybill.payment_attempts (
  tenant_id      bigint NOT NULL,
  id             uuid NOT NULL,
  payment_id     uuid NOT NULL,
  refund_id      uuid,
  operation      waybill.provider_operation NOT NULL,
  status         waybill.attempt_status NOT NULL DEFAULT 'processing',
  provider_key   waybill.provider_key NOT NULL,
  payment_method waybill.provider_text,
  amount         waybill.minor_units NOT NULL,
  tax            waybill.minor_units NOT NULL,
  decline_code   waybill.decline_code,
  started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  settled_at     timestamptz,
  CONSTRAINT payment_attempts_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT payment_attempts_provider_key_key UNIQUE (tenant_id, provider_key),
  CONSTRAINT payment_attempts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT payment_attempts_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds (tenant_id, id),
  CONSTRAINT payment_attempts_refund_given CHECK ((operation = 'refund') = (refund_id IS NOT NULL)),
  CONSTRAINT payment_attempts_method_given CHECK ((operation = 'authorize') = (payment_method IS NOT NULL)),
  CONSTRAINT payment_attempts_amount_range CHECK (amount >= 1 AND tax <= amount),
  CONSTRAINT payment_attempts_settled CHECK ((status IN ('succeeded', 'refused')) = (settled_at IS NOT NULL))
);

COMMENT ON TABLE waybill.payment_attempts IS
  'One row for each thing that is asked of a provider: enough to ask again under the same key, without the client.';

COMMENT ON CONSTRAINT payment_attempts_provider_key_key ON waybill.payment_attempts IS
  'Outlives the client''s key: the provider may still know it when that is forgotten here, and would answer for the old request.';

CREATE UNIQUE INDEX payment_attempts_pending_key ON waybill.payment_attempts (tenant_id, payment_id)
  WHERE refund_id IS NULL AND status IN ('processing', 'needs_reconciliation');

CREATE INDEX payment_attempts_refund_idx ON waybill.payment_attempts (tenant_id, refund_id) WHERE refund_id IS NOT NULL;

SELECT waybill.make_tenant_table('waybill.payment_attempts', 'what was asked of a provider stays on record');

CREATE TRIGGER payment_attempts_10_identity BEFORE UPDATE ON waybill.payment_attempts FOR EACH ROW
  WHEN (OLD.settled_at IS NOT NULL
        OR (NEW.tenant_id, NEW.id, NEW.payment_id, NEW.refund_id, NEW.operation, NEW.provider_key, NEW.payment_method,
            NEW.amount, NEW.tax, NEW.started_at)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.payment_id, OLD.refund_id, OLD.operation, OLD.provider_key, OLD.payment_method,
            OLD.amount, OLD.tax, OLD.started_at))
  EXECUTE FUNCTION waybill.refuse_change('an attempt keeps what it asked for, and its result once there is one');


CREATE TABLE waybill.payment_webhook_events (
  tenant_id   bigint NOT NULL,
  provider    waybill.provider_name NOT NULL,
  event       waybill.provider_text NOT NULL,
  type        waybill.provider_text NOT NULL,
  payment_id  uuid,
  outcome     waybill.event_outcome NOT NULL,
  digest      waybill.bytes32 NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_webhook_events_pkey PRIMARY KEY (tenant_id, provider, event)
);

COMMENT ON COLUMN waybill.payment_webhook_events.digest IS
  'SHA-256 of the body. The body itself may hold personal data and can be read at the provider by its event id.';

SELECT waybill.make_tenant_table('waybill.payment_webhook_events', 'events of providers are kept as they came', 'UPDATE OR DELETE OR TRUNCATE');


CREATE TABLE waybill.payment_conflicts (
  tenant_id    bigint NOT NULL,
  provider     waybill.provider_name NOT NULL,
  event        waybill.provider_text NOT NULL,
  payment_id   uuid NOT NULL,
  problem      waybill.reason NOT NULL,
  refund_id    uuid,
  subject      waybill.fact_subject,
  fact         waybill.provider_fact,
  reference    waybill.provider_text,
  amount       bigint,
  decline_code waybill.decline_code,
  cause        waybill.refund_cause,
  noticed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  resolved_at  timestamptz,
  resolved_by  uuid,
  resolution   waybill.reason,
  CONSTRAINT payment_conflicts_pkey PRIMARY KEY (tenant_id, provider, event),
  CONSTRAINT payment_conflicts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments (tenant_id, id),
  CONSTRAINT payment_conflicts_resolved CHECK ((resolved_at IS NULL) = (resolution IS NULL) AND (resolved_at IS NULL) = (resolved_by IS NULL))
);

COMMENT ON TABLE waybill.payment_conflicts IS
  'What a provider says of a payment and what can''t be so here: for a person to look at. subject and fact are null where the event could not be read.';

CREATE INDEX payment_conflicts_open_idx ON waybill.payment_conflicts (tenant_id, payment_id, noticed_at) WHERE resolved_at IS NULL;

SELECT waybill.make_tenant_table('waybill.payment_conflicts', 'what a provider said stays on record');
SELECT waybill.reference_user('waybill.payment_conflicts', 'resolved_by');

CREATE TRIGGER payment_conflicts_10_fixed BEFORE UPDATE ON waybill.payment_conflicts FOR EACH ROW
  WHEN (OLD.resolved_at IS NOT NULL
        OR (NEW.tenant_id, NEW.provider, NEW.event, NEW.payment_id, NEW.problem, NEW.refund_id, NEW.subject, NEW.fact, NEW.reference,
            NEW.amount, NEW.decline_code, NEW.cause, NEW.noticed_at)
        IS DISTINCT FROM (OLD.tenant_id, OLD.provider, OLD.event, OLD.payment_id, OLD.problem, OLD.refund_id, OLD.subject, OLD.fact,
            OLD.reference, OLD.amount, OLD.decline_code, OLD.cause, OLD.noticed_at))
  EXECUTE FUNCTION waybill.refuse_change('a conflict keeps what it is about, and its resolution once there is one');


CREATE SCHEMA payment_inbox;

CREATE TABLE payment_inbox.stray_events (
  provider    waybill.provider_name NOT NULL,
  event       waybill.provider_text NOT NULL,
  type        waybill.provider_text NOT NULL,
  digest      waybill.bytes32 NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT stray_events_pkey PRIMARY KEY (provider, event)
);

COMMENT ON TABLE payment_inbox.stray_events IS
  'Signed events that name no tenant of ours, such as of payments that somebody made at the provider by hand. Apart from what belongs to tenants.';

GRANT USAGE ON SCHEMA payment_inbox TO waybill_app;

GRANT SELECT, INSERT ON payment_inbox.stray_events TO waybill_app;

CREATE FUNCTION payment_inbox.tenant_of(p_provider text, p_payment_ref text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_before text := current_setting('waybill.tenant_id', true);
  v_tenant bigint;
  v_found bigint[] := '{}';
BEGIN
  -- Tenant by tenant, as the policies want it: a look-up by index for each, for the few events that don't say whose they are.
  FOR v_tenant IN SELECT t.id FROM waybill.tenant_ids() AS t(id) LOOP
    PERFORM set_config('waybill.tenant_id', v_tenant::text, true);
    IF EXISTS (SELECT FROM waybill.payments p
               WHERE p.tenant_id = v_tenant AND p.provider = p_provider AND p.provider_ref = p_payment_ref) THEN
      v_found := v_found || v_tenant;
    END IF;
  END LOOP;
  PERFORM set_config('waybill.tenant_id', coalesce(v_before, ''), true);
  RETURN CASE cardinality(v_found) WHEN 1 THEN v_found[1] END;
END
$$;

COMMENT ON FUNCTION payment_inbox.tenant_of IS
  'The tenant whose payment a provider calls by this name; null when there is none, or more than one.';

GRANT EXECUTE ON FUNCTION payment_inbox.tenant_of TO waybill_app;

CREATE TRIGGER stray_events_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_inbox.stray_events
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came');

-- migrations/sql/payments/2-reading.sql

CREATE FUNCTION waybill.payment_snapshot(p waybill.payments) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', p.id, 'orderId', p.order_id, 'provider', p.provider, 'providerRef', p.provider_ref,
    'status', p.status, 'version', p.version, 'currency', p.currency, 'amount', p.amount, 'tax', p.tax,
    'authorized', p.authorized, 'captured', p.captured, 'capturedTax', p.captured_tax, 'refunding', p.refunding,
    'refundingTax', p.refunding_tax, 'refunded', p.refunded, 'refundedTax', p.refunded_tax, 'declineCode', p.decline_code,
    'conflicts', p.conflicts,
    'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(p.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$$;

COMMENT ON FUNCTION waybill.payment_snapshot IS 'A payment as its events keep it.';

CREATE FUNCTION waybill.refund_snapshot(r waybill.refunds) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', r.id, 'paymentId', r.payment_id, 'providerRef', r.provider_ref, 'status', r.status,
    'version', r.version, 'amount', r.amount, 'tax', r.tax, 'reason', r.reason, 'cause', r.cause, 'declineCode', r.decline_code,
    'createdAt', to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updatedAt', to_char(r.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text;
END
$$;

COMMENT ON FUNCTION waybill.refund_snapshot IS 'A refund as its events keep it.';

CREATE VIEW waybill.payment_details WITH (security_invoker = true) AS
SELECT p.tenant_id, p.id, p.order_id, p.provider, p.provider_ref, p.status, p.version, p.currency, p.amount, p.tax,
       p.authorized, p.captured, p.captured_tax, p.refunding, p.refunding_tax, p.refunded, p.refunded_tax,
       p.decline_code, p.created_at, p.updated_at,
       (SELECT coalesce(jsonb_agg(waybill.refund_snapshot(r)::jsonb
          || jsonb_build_object('eventHash', (SELECT encode(e.event_hash, 'hex') FROM audit.events e
               WHERE e.tenant_id = r.tenant_id AND e.stream = 'refund/' || r.id AND e.version = r.version))
          ORDER BY r.created_at, r.id), '[]'::jsonb)
        FROM waybill.refunds r WHERE r.tenant_id = p.tenant_id AND r.payment_id = p.id) AS refunds,
       CASE WHEN p.conflicts = 0 THEN '[]'::jsonb ELSE (
         SELECT jsonb_agg(jsonb_build_object('provider', c.provider, 'event', c.event, 'subject', c.subject, 'fact', c.fact,
           'reference', c.reference, 'amount', c.amount, 'problem', c.problem,
           'noticedAt', to_char(c.noticed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) ORDER BY c.noticed_at, c.event)
         FROM waybill.payment_conflicts c
         WHERE c.tenant_id = p.tenant_id AND c.payment_id = p.id AND c.resolved_at IS NULL) END AS conflicts,
       (SELECT encode(e.event_hash, 'hex') FROM audit.events e
        WHERE e.tenant_id = p.tenant_id AND e.stream = 'payment/' || p.id AND e.version = p.version) AS event_hash
FROM waybill.payments p;

COMMENT ON VIEW waybill.payment_details IS 'A payment with its refunds and open conflicts, as the API shows it.';

GRANT SELECT ON waybill.payment_details TO waybill_app;

GRANT EXECUTE ON FUNCTION waybill.refund_snapshot TO waybill_app;

CREATE FUNCTION waybill.order_coverage(p_tenant bigint, p_order uuid) RETURNS TABLE (total bigint, held bigint, taken bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT o.total,
         coalesce(sum(CASE p.status
           WHEN 'authorized' THEN p.authorized
           -- What isn't taken is let go, so while a part is being taken only that part is sure.
           WHEN 'capturing' THEN (SELECT a.amount FROM waybill.payment_attempts a
                                  WHERE a.tenant_id = p_tenant AND a.payment_id = p.id AND a.refund_id IS NULL AND a.status = 'processing')
           ELSE p.captured - p.refunded - p.refunding END), 0)::bigint,
         coalesce(sum(p.captured - p.refunded - p.refunding), 0)::bigint
  FROM waybill.orders o LEFT JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.order_id = o.id
  WHERE o.tenant_id = p_tenant AND o.id = p_order
  GROUP BY o.total
$$;

COMMENT ON FUNCTION waybill.order_coverage IS
  'What an order asks for, how much of it its payments hold or have taken, and how much they have taken: what was given back, is being given back or let go of, or nobody can tell of, is neither.';

GRANT EXECUTE ON FUNCTION waybill.order_coverage TO waybill_app;

-- migrations/sql/payments/3-machines.sql

-- Steps that the provider decides are open to whoever's request hears of it first, and to the system for webhooks and
-- for attempts that nobody waits for. Steps that nobody here asked for are the system's alone.
INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES
  ('payment', 'waybill.payments', 'processing'), ('refund', 'waybill.refunds', 'processing');

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles) VALUES
  ('payment', 'processing', 'authorized', '{operator,admin,system}'),
  ('payment', 'processing', 'declined', '{operator,admin,system}'),
  ('payment', 'processing', 'needs_reconciliation', '{operator,admin,system}'),
  ('payment', 'authorized', 'capturing', '{operator,admin}'),
  ('payment', 'authorized', 'voiding', '{operator,admin}'),
  ('payment', 'authorized', 'captured', '{system}'),
  ('payment', 'authorized', 'voided', '{system}'),
  ('payment', 'capturing', 'captured', '{operator,admin,system}'),
  ('payment', 'capturing', 'authorized', '{operator,admin,system}'),
  ('payment', 'capturing', 'needs_reconciliation', '{operator,admin,system}'),
  ('payment', 'voiding', 'voided', '{operator,admin,system}'),
  ('payment', 'voiding', 'authorized', '{operator,admin,system}'),
  ('payment', 'voiding', 'needs_reconciliation', '{operator,admin,system}'),
  ('payment', 'needs_reconciliation', 'authorized', '{admin,system}'),
  ('payment', 'needs_reconciliation', 'declined', '{admin,system}'),
  ('payment', 'needs_reconciliation', 'captured', '{admin,system}'),
  ('payment', 'needs_reconciliation', 'voided', '{admin,system}'),
  ('payment', 'declined', 'authorized', '{system}'),
  ('payment', 'declined', 'captured', '{system}'),
  ('payment', 'captured', 'refunded', '{operator,admin,system}'),
  ('payment', 'refunded', 'captured', '{system}'),
  ('refund', 'processing', 'succeeded', '{operator,admin,system}'),
  ('refund', 'processing', 'failed', '{operator,admin,system}'),
  ('refund', 'processing', 'needs_reconciliation', '{operator,admin,system}'),
  ('refund', 'needs_reconciliation', 'succeeded', '{admin,system}'),
  ('refund', 'needs_reconciliation', 'failed', '{admin,system}'),
  ('refund', 'succeeded', 'failed', '{system}');

CREATE FUNCTION waybill.keep_provider_ref(p_new anyelement, p_old anyelement) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_old.provider_ref IS NOT NULL AND p_new.provider_ref IS DISTINCT FROM p_old.provider_ref THEN
    RAISE EXCEPTION 'UPDATE on % is refused: a known provider_ref never changes', pg_typeof(p_new) USING ERRCODE = 'WB002';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.keep_provider_ref IS
  'A rule of payments and refunds: what the provider calls one, once that is known, is what it is called.';

SELECT waybill.attach_machine('payment',
  p_fixed => '{tenant_id,id,order_id,provider,currency,amount,tax,created_at}',
  p_rules => 'waybill.keep_provider_ref');

SELECT waybill.attach_machine('refund',
  p_fixed => '{tenant_id,id,payment_id,amount,tax,reason,cause,created_at}',
  p_rules => 'waybill.keep_provider_ref');

-- migrations/sql/payments/4-guards.sql

CREATE FUNCTION waybill.payment_holding_order(p_tenant bigint, p_order uuid) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object(
    'code', 'WB030',
    'message', format('order %s has a payment %s, which is %s%s', p_order, p.id, p.status,
                      CASE WHEN p.conflicts > 0 THEN ' and of which its provider says something else' END),
    'detail', jsonb_build_object('paymentId', p.id, 'status', p.status, 'conflicts', p.conflicts),
    'hint', CASE WHEN p.conflicts > 0 THEN 'waybill.payment_conflicts says what; waybill.resolve_payment_conflict ends it.'
                 ELSE 'Void it or refund it first.' END)
  FROM waybill.payments p
  WHERE p.tenant_id = p_tenant AND p.order_id = p_order
    AND (p.status NOT IN ('declined', 'voided', 'refunded') OR p.conflicts > 0)
  ORDER BY p.conflicts DESC LIMIT 1
$$;

COMMENT ON FUNCTION waybill.payment_holding_order IS
  'What an order''s live payment, or one with open conflicts, has against canceling the order, another total and another payment; null when there is none. A new payment locks the order, so none slips in.';

GRANT EXECUTE ON FUNCTION waybill.payment_holding_order TO waybill_app;

SELECT waybill.add_step_rule('order', 'waybill.payment_holding_order', '{canceled}');

CREATE FUNCTION waybill.keep_total_while_paying() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_refusal jsonb;
BEGIN
  IF NEW.total <> OLD.total THEN
    v_refusal := waybill.payment_holding_order(NEW.tenant_id, NEW.id);
    IF v_refusal IS NOT NULL THEN
      PERFORM waybill.raise_refusal(v_refusal);
    END IF;
  END IF;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.keep_total_while_paying IS
  'BEFORE UPDATE OF total … FOR EACH ROW of orders: no other total while a payment is live.';

-- Only where a statement sets the total: steps and metadata don't, and pay for no further trigger.
CREATE TRIGGER orders_25_total BEFORE UPDATE OF total ON waybill.orders FOR EACH ROW
  EXECUTE FUNCTION waybill.keep_total_while_paying();

CREATE FUNCTION waybill.share_of_tax(p_part bigint, p_whole bigint, p_whole_tax bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT least(p_part, p_whole_tax, greatest(p_part - (p_whole - p_whole_tax),
                                             round(p_part::numeric * p_whole_tax / p_whole)::bigint))
$$;

COMMENT ON FUNCTION waybill.share_of_tax IS
  'The tax in a part of an amount: in proportion, rounded half up, and never so that tax or net of the whole is exceeded.';

CREATE FUNCTION waybill.lock_payment(p_tenant bigint, p_payment uuid) RETURNS waybill.payments
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments;
BEGIN
  -- Order first, then payment, then refund: the order of a payment never changes, so it may be read without a lock.
  PERFORM waybill.lock_order(p_tenant, p.order_id, NULL) FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  SELECT p.* INTO v_payment FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment FOR NO KEY UPDATE;
  RETURN v_payment;
END
$$;

COMMENT ON FUNCTION waybill.lock_payment IS
  'Locks a payment and its order until the transaction ends. A row of nulls when there is none.';

CREATE FUNCTION waybill.refuse_payment_step(p_payment waybill.payments, p_to text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_payment.status IN ('processing', 'capturing', 'voiding', 'needs_reconciliation') THEN
    RAISE EXCEPTION 'payment % is %: what was begun must end first', p_payment.id, p_payment.status
      USING ERRCODE = 'WB030', DETAIL = jsonb_build_object('paymentId', p_payment.id, 'status', p_payment.status)::text;
  END IF;
  RAISE EXCEPTION 'payment % cannot go from % to %', p_payment.id, p_payment.status, p_to
    USING ERRCODE = 'WB010', DETAIL = jsonb_build_object('from', p_payment.status, 'to', p_to, 'allowed', coalesce((
      SELECT jsonb_agg(t.to_state ORDER BY t.to_state) FROM waybill.valid_transitions t
      WHERE t.machine = 'payment' AND t.from_state = p_payment.status AND t.roles <> '{system}'), '[]'::jsonb))::text;
END
$$;

CREATE FUNCTION waybill.refuse_payment_amount(p_amount bigint, p_max bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'an amount of % is not between 1 and %', p_amount, p_max
    USING ERRCODE = 'WB032', DETAIL = jsonb_build_object('amount', p_amount, 'max', p_max)::text;
END
$$;

-- migrations/sql/payments/5-asking.sql

CREATE FUNCTION waybill.begin_payment(
  p_tenant bigint, p_order uuid, p_payment uuid, p_attempt uuid, p_provider text, p_provider_key text,
  p_payment_method text, p_amount bigint) RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_order waybill.orders := waybill.lock_order(p_tenant, p_order, NULL);
  v_amount bigint := coalesce(p_amount, v_order.total);
  v_tax bigint := waybill.share_of_tax(v_amount, nullif(v_order.total, 0), v_order.tax);
  v_refusal jsonb;
  v_now timestamptz := clock_timestamp();
BEGIN
  IF v_order.id IS NULL THEN
    RETURN;
  END IF;
  IF v_order.status = 'canceled' THEN
    RAISE EXCEPTION 'order % is canceled: nothing is to be paid', p_order USING ERRCODE = 'WB031';
  END IF;
  v_refusal := waybill.payment_holding_order(p_tenant, p_order);
  IF v_refusal IS NOT NULL THEN
    PERFORM waybill.raise_refusal(v_refusal);
  END IF;
  IF v_amount NOT BETWEEN 1 AND v_order.total THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_order.total);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, payment_method, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'authorize', p_provider_key, p_payment_method, v_amount, v_tax)
  )
  INSERT INTO waybill.payments (tenant_id, id, order_id, provider, currency, amount, tax, created_at, updated_at)
  VALUES (p_tenant, p_payment, p_order, p_provider, v_order.currency, v_amount, v_tax, v_now, v_now);
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_payment IS
  'Puts on record that a provider is about to be asked to hold an amount (null: the order''s total). No row when there is no such order.';

CREATE FUNCTION waybill.begin_capture(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text, p_amount bigint)
RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_amount bigint := coalesce(p_amount, v_payment.authorized);
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status <> 'authorized' THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'captured');
  END IF;
  IF v_amount NOT BETWEEN 1 AND v_payment.authorized THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_payment.authorized);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'capture', p_provider_key, v_amount,
            waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax))
  )
  UPDATE waybill.payments p SET status = 'capturing' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_capture IS
  'Puts on record that a provider is about to be asked to take an amount (null: all that it holds). No row when there is no such payment.';

CREATE FUNCTION waybill.begin_void(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text)
RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status <> 'authorized' THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'voided');
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, 'void', p_provider_key, v_payment.amount, v_payment.tax)
  )
  UPDATE waybill.payments p SET status = 'voiding' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_void IS
  'Puts on record that a provider is about to be asked to let go of what it holds. No row when there is no such payment.';

CREATE FUNCTION waybill.begin_refund(
  p_tenant bigint, p_payment uuid, p_refund uuid, p_attempt uuid, p_provider_key text,
  p_amount bigint, p_tax bigint, p_reason text) RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_left bigint := v_payment.captured - v_payment.refunded - v_payment.refunding;
  v_left_tax bigint := v_payment.captured_tax - v_payment.refunded_tax - v_payment.refunding_tax;
  v_amount bigint := coalesce(p_amount, v_left);
  v_tax bigint := coalesce(p_tax, waybill.share_of_tax(v_amount, nullif(v_left, 0), v_left_tax));
  v_now timestamptz := clock_timestamp();
BEGIN
  IF v_payment.id IS NULL THEN
    RETURN;
  END IF;
  IF v_payment.status NOT IN ('captured', 'refunded') THEN
    PERFORM waybill.refuse_payment_step(v_payment, 'refunded');
  END IF;
  IF v_left < 1 OR v_amount > v_left OR v_tax > v_left_tax OR v_amount - v_tax > v_left - v_left_tax THEN
    RAISE EXCEPTION 'payment % has % (tax %) left to refund, not % (tax %)', p_payment, v_left, v_left_tax, v_amount, v_tax
      USING ERRCODE = 'WB033', DETAIL = jsonb_build_object('left', v_left, 'leftTax', v_left_tax)::text;
  END IF;
  IF v_amount < 1 OR v_tax NOT BETWEEN 0 AND v_amount THEN
    PERFORM waybill.refuse_payment_amount(v_amount, v_left);
  END IF;
  WITH attempt AS (
    INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, refund_id, operation, provider_key, amount, tax)
    VALUES (p_tenant, p_attempt, p_payment, p_refund, 'refund', p_provider_key, v_amount, v_tax)
  ), refund AS (
    INSERT INTO waybill.refunds (tenant_id, id, payment_id, amount, tax, reason, created_at, updated_at)
    VALUES (p_tenant, p_refund, p_payment, v_amount, v_tax, p_reason, v_now, v_now)
  )
  UPDATE waybill.payments p SET refunding = p.refunding + v_amount, refunding_tax = p.refunding_tax + v_tax
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
END
$$;

COMMENT ON FUNCTION waybill.begin_refund IS
  'Promises an amount (null: all that is left) with the tax in it (null: in proportion) to a refund. No row when there is no such payment.';

GRANT EXECUTE ON FUNCTION waybill.begin_payment, waybill.begin_capture, waybill.begin_void, waybill.begin_refund TO waybill_app;

-- migrations/sql/payments/6-settling.sql

CREATE FUNCTION waybill.settle_payment_attempt(
  p_tenant bigint, p_attempt uuid, p_result text, p_provider_ref text, p_amount bigint, p_decline_code text)
RETURNS SETOF waybill.payment_details
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_attempt waybill.payment_attempts;
  v_payment waybill.payments;
  v_amount bigint;
  v_tax bigint;
  v_most bigint;
  v_settled timestamptz;
BEGIN
  SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
  v_payment := waybill.lock_payment(p_tenant, v_attempt.payment_id);
  -- Again, under the lock: a webhook or another process may have settled it meanwhile.
  SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
  v_amount := coalesce(p_amount, v_attempt.amount);
  v_tax := CASE v_amount WHEN v_attempt.amount THEN v_attempt.tax
                         ELSE waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax) END;
  -- A provider that says it did another amount than it could: what it really did nobody here can tell.
  v_most := CASE v_attempt.operation WHEN 'authorize' THEN v_payment.amount WHEN 'capture' THEN v_payment.authorized ELSE v_attempt.amount END;
  IF p_result = 'succeeded' AND (v_amount NOT BETWEEN 1 AND v_most OR (v_attempt.operation = 'refund' AND v_amount <> v_most)) THEN
    p_result := 'needs_reconciliation';
  END IF;
  v_settled := CASE WHEN p_result <> 'needs_reconciliation' THEN clock_timestamp() END;

  IF v_attempt.settled_at IS NOT NULL OR v_attempt.status = p_result THEN
    NULL;
  ELSIF v_attempt.operation = 'refund' THEN
    WITH attempt AS (
      UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
      WHERE a.tenant_id = p_tenant AND a.id = p_attempt
    ), refund AS (
      UPDATE waybill.refunds r
      SET status = CASE p_result WHEN 'refused' THEN 'failed' ELSE p_result END,
          provider_ref = coalesce(r.provider_ref, p_provider_ref), decline_code = p_decline_code
      WHERE r.tenant_id = p_tenant AND r.id = v_attempt.refund_id
    )
    UPDATE waybill.payments p
    SET refunding = p.refunding - v_attempt.amount, refunding_tax = p.refunding_tax - v_attempt.tax,
        refunded = p.refunded + CASE p_result WHEN 'succeeded' THEN v_attempt.amount ELSE 0 END,
        refunded_tax = p.refunded_tax + CASE p_result WHEN 'succeeded' THEN v_attempt.tax ELSE 0 END,
        status = CASE WHEN p_result = 'succeeded' AND p.refunded + v_attempt.amount = p.captured THEN 'refunded' ELSE p.status END
    WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id AND p_result <> 'needs_reconciliation';
  ELSE
    WITH attempt AS (
      UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
      WHERE a.tenant_id = p_tenant AND a.id = p_attempt
    )
    UPDATE waybill.payments p
    SET provider_ref = coalesce(p.provider_ref, p_provider_ref),
        decline_code = coalesce(p_decline_code, p.decline_code),
        authorized = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'authorize' THEN v_amount ELSE p.authorized END,
        captured = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_amount ELSE p.captured END,
        captured_tax = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_tax ELSE p.captured_tax END,
        status = CASE p_result
          WHEN 'needs_reconciliation' THEN p_result
          WHEN 'refused' THEN CASE v_attempt.operation WHEN 'authorize' THEN 'declined' ELSE 'authorized' END
          ELSE CASE v_attempt.operation WHEN 'authorize' THEN 'authorized' WHEN 'capture' THEN 'captured' ELSE 'voided' END END
    WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id;
  END IF;
  RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = v_attempt.payment_id;
END
$$;

COMMENT ON FUNCTION waybill.settle_payment_attempt IS
  'Writes down how an attempt ended: succeeded, refused, or needs_reconciliation when nobody can tell, as with an amount that can''t be. An attempt that has ended is left as it is.';

GRANT EXECUTE ON FUNCTION waybill.settle_payment_attempt TO waybill_app;

-- migrations/sql/payments/7-facts.sql

CREATE FUNCTION waybill.apply_payment_fact(
  p_tenant bigint, p_payment uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_pending waybill.payment_attempts;
  v_operation text := CASE p_fact WHEN 'captured' THEN 'capture' WHEN 'voided' THEN 'void' ELSE 'authorize' END;
  v_is_mine boolean;
BEGIN
  SELECT a.* INTO v_pending FROM waybill.payment_attempts a
  WHERE a.tenant_id = p_tenant AND a.payment_id = p_payment AND a.refund_id IS NULL
    AND a.status IN ('processing', 'needs_reconciliation');
  v_is_mine := FOUND AND v_pending.operation = v_operation;

  IF p_fact = 'captured' AND (v_payment.status = 'voided'
                              OR v_payment.status IN ('captured', 'refunded') AND p_amount <> v_payment.captured) THEN
    RAISE EXCEPTION 'the provider took % of a payment that is %, with % captured', coalesce(p_amount::text, 'money'), v_payment.status, v_payment.captured
      USING ERRCODE = 'WB034';
  END IF;
  -- After a decline, only what the provider holds or took all the same is news: by another card, or by hand.
  IF v_payment.status = 'declined' AND p_fact IN ('authorized', 'captured') THEN
    UPDATE waybill.payments p
    SET status = p_fact, authorized = coalesce(p_amount, p.amount), provider_ref = coalesce(p.provider_ref, p_provider_ref),
        captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.amount) ELSE 0 END,
        captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.amount), p.amount, p.tax) ELSE 0 END
    WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN 'applied';
  END IF;
  -- Facts come late and in any order. What a payment has left behind says nothing new of it.
  IF v_payment.status IN ('declined', 'captured', 'voided', 'refunded')
     OR (p_fact IN ('authorized', 'declined') AND NOT v_is_mine) THEN
    RETURN 'nothing-to-do';
  END IF;
  IF v_is_mine THEN
    PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE p_fact WHEN 'declined' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, p_amount, p_decline_code);
    RETURN 'applied';
  END IF;
  -- Captured or let go, but not by what is pending here: a hold was there in any case, and a rival step came too late.
  IF v_pending.id IS NOT NULL THEN
    PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE v_pending.operation WHEN 'authorize' THEN 'succeeded' ELSE 'refused' END,
                                           p_provider_ref, NULL, CASE WHEN v_pending.operation <> 'authorize' THEN 'already_' || p_fact END);
  END IF;
  UPDATE waybill.payments p
  SET status = p_fact,
      captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.authorized) ELSE p.captured END,
      captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.authorized), p.amount, p.tax) ELSE p.captured_tax END,
      provider_ref = coalesce(p.provider_ref, p_provider_ref)
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN 'applied';
END
$$;

COMMENT ON FUNCTION waybill.apply_payment_fact IS
  'Brings a payment to what its provider says happened: authorized, declined, captured or voided. Returns applied or nothing-to-do; refuses what can''t be.';

CREATE FUNCTION waybill.book_foreign_refund(
  p_payment waybill.payments, p_refund uuid, p_provider_ref text, p_amount bigint, p_reason text, p_cause text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_left bigint := p_payment.captured - p_payment.refunded - p_payment.refunding;
  v_left_tax bigint := p_payment.captured_tax - p_payment.refunded_tax - p_payment.refunding_tax;
  v_tax bigint := waybill.share_of_tax(p_amount, nullif(v_left, 0), v_left_tax);
  v_now timestamptz := clock_timestamp();
BEGIN
  IF p_amount BETWEEN 1 AND v_left THEN
    INSERT INTO waybill.refunds (tenant_id, id, payment_id, amount, tax, reason, cause, provider_ref, created_at, updated_at)
    VALUES (p_payment.tenant_id, p_refund, p_payment.id, p_amount, v_tax, p_reason, p_cause, p_provider_ref, v_now, v_now);
    WITH refund AS (
      UPDATE waybill.refunds r SET status = 'succeeded' WHERE r.tenant_id = p_payment.tenant_id AND r.id = p_refund
    )
    UPDATE waybill.payments p
    SET refunded = p.refunded + p_amount, refunded_tax = p.refunded_tax + v_tax,
        status = CASE WHEN p.refunded + p_amount = p.captured THEN 'refunded' ELSE p.status END
    WHERE p.tenant_id = p_payment.tenant_id AND p.id = p_payment.id;
  ELSE
    RAISE EXCEPTION 'the provider gave back % of a payment that has % left to refund', coalesce(p_amount::text, 'an unknown amount'), v_left
      USING ERRCODE = 'WB034';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.book_foreign_refund IS
  'Books a refund that nobody here asked for: one made at the provider, or by a bank in a dispute. The tax in it is in proportion.';

CREATE FUNCTION waybill.apply_refund_fact(
  p_tenant bigint, p_payment uuid, p_refund uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text,
  p_cause text, p_new_refund uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  v_refund waybill.refunds;
  v_attempt uuid;
BEGIN
  SELECT r.* INTO v_refund FROM waybill.refunds r
  WHERE r.tenant_id = p_tenant AND r.payment_id = p_payment
    AND CASE WHEN p_refund IS NULL THEN r.provider_ref = p_provider_ref ELSE r.id = p_refund END
  FOR NO KEY UPDATE;
  IF v_refund.id IS NULL THEN
    IF p_fact = 'failed' THEN
      RETURN 'nothing-to-do';
    END IF;
    PERFORM waybill.book_foreign_refund(v_payment, p_new_refund, p_provider_ref, p_amount, p_decline_code, p_cause);
    RETURN 'applied';
  END IF;
  IF p_amount <> v_refund.amount THEN
    RAISE EXCEPTION 'the provider says % of refund %, which is of %', p_amount, v_refund.id, v_refund.amount USING ERRCODE = 'WB034';
  END IF;
  IF v_refund.status IN ('processing', 'needs_reconciliation') THEN
    SELECT a.id INTO STRICT v_attempt FROM waybill.payment_attempts a
    WHERE a.tenant_id = p_tenant AND a.refund_id = v_refund.id AND a.settled_at IS NULL;
    PERFORM waybill.settle_payment_attempt(p_tenant, v_attempt, CASE p_fact WHEN 'failed' THEN 'refused' ELSE 'succeeded' END,
                                           p_provider_ref, NULL, p_decline_code);
    RETURN 'applied';
  END IF;
  IF v_refund.status <> 'succeeded' OR p_fact <> 'failed' THEN
    RETURN 'nothing-to-do';
  END IF;
  -- A bank can send a refund back days later, and a dispute can be won. The payment holds the money again, and is live again
  -- unless another one is.
  WITH refund AS (
    UPDATE waybill.refunds r SET status = 'failed', decline_code = p_decline_code WHERE r.tenant_id = p_tenant AND r.id = v_refund.id
  )
  UPDATE waybill.payments p
  SET refunded = p.refunded - v_refund.amount, refunded_tax = p.refunded_tax - v_refund.tax,
      status = CASE WHEN p.status = 'refunded' AND NOT EXISTS (
        SELECT FROM waybill.payments o WHERE o.tenant_id = p_tenant AND o.order_id = p.order_id AND o.id <> p.id
          AND o.status NOT IN ('declined', 'voided', 'refunded')) THEN 'captured' ELSE p.status END
  WHERE p.tenant_id = p_tenant AND p.id = p_payment;
  RETURN 'applied';
END
$$;

COMMENT ON FUNCTION waybill.apply_refund_fact IS
  'Brings a refund to what its provider says happened: succeeded or failed, also long after it succeeded. p_refund null is one that is known by the provider''s name of it, or not at all: it is booked then, as p_new_refund. Returns applied or nothing-to-do; refuses what can''t be.';

CREATE FUNCTION waybill.keep_webhook_event(
  p_tenant bigint, p_provider text, p_event text, p_type text, p_digest bytea, p_provider_key text, p_payment_ref text,
  p_subject text, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text, p_cause text, p_new_refund uuid, p_problem text,
  OUT outcome text, OUT payment_id uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_refund uuid;
BEGIN
  -- A second delivery of the same event waits here for the first one.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant || '/' || p_provider || '/' || p_event, 20));
  IF EXISTS (SELECT FROM waybill.payment_webhook_events e
             WHERE e.tenant_id = p_tenant AND e.provider = p_provider AND e.event = p_event) THEN
    outcome := 'seen';
    RETURN;
  END IF;
  -- By what was asked of the provider under this key, or, for what nobody here asked for, by the provider's name of the payment.
  SELECT a.payment_id, a.refund_id INTO payment_id, v_refund
  FROM waybill.payment_attempts a JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.id = a.payment_id
  WHERE a.tenant_id = p_tenant AND a.provider_key = p_provider_key AND p.provider = p_provider;
  IF payment_id IS NULL THEN
    SELECT p.id INTO payment_id FROM waybill.payments p
    WHERE p.tenant_id = p_tenant AND p.provider = p_provider AND p.provider_ref = p_payment_ref;
  END IF;
  outcome := CASE
    WHEN payment_id IS NULL THEN 'unknown'
    WHEN p_problem IS NOT NULL THEN 'conflict'
    WHEN p_fact IS NULL THEN 'unknown'
    WHEN p_subject = 'payment' THEN waybill.apply_payment_fact(p_tenant, payment_id, p_fact, p_provider_ref, p_amount, p_decline_code)
    ELSE waybill.apply_refund_fact(p_tenant, payment_id, v_refund, p_fact, p_provider_ref, p_amount, p_decline_code, p_cause, p_new_refund)
    END;
  INSERT INTO waybill.payment_webhook_events (tenant_id, provider, event, type, payment_id, outcome, digest)
  VALUES (p_tenant, p_provider, p_event, p_type, payment_id, outcome, p_digest);
  IF outcome = 'conflict' THEN
    PERFORM waybill.lock_payment(p_tenant, payment_id);
    INSERT INTO waybill.payment_conflicts
      (tenant_id, provider, event, payment_id, problem, refund_id, subject, fact, reference, amount, decline_code, cause)
    VALUES (p_tenant, p_provider, p_event, payment_id, p_problem, v_refund, p_subject, p_fact, p_provider_ref, p_amount, p_decline_code, p_cause);
    UPDATE waybill.payments p SET conflicts = p.conflicts + 1 WHERE p.tenant_id = p_tenant AND p.id = keep_webhook_event.payment_id;
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.keep_webhook_event IS
  'Keeps a provider''s event and applies its fact, once, or, with a problem, keeps it as a conflict of the payment it is about. Outcome: applied, nothing-to-do, conflict, unknown, or seen for one that came before.';

CREATE FUNCTION waybill.resolve_payment_conflict(p_tenant bigint, p_provider text, p_event text, p_resolution text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_payment uuid;
BEGIN
  SELECT c.payment_id INTO v_payment FROM waybill.payment_conflicts c
  WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.event = p_event;
  PERFORM waybill.lock_payment(p_tenant, v_payment);
  UPDATE waybill.payment_conflicts c
  SET resolved_at = clock_timestamp(), resolved_by = current_setting('waybill.actor')::uuid, resolution = p_resolution
  WHERE c.tenant_id = p_tenant AND c.provider = p_provider AND c.event = p_event AND c.resolved_at IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no open conflict by the event % of %', p_event, p_provider
      USING ERRCODE = 'WB035', HINT = 'SELECT * FROM waybill.payment_conflicts WHERE resolved_at IS NULL lists them.';
  END IF;
  UPDATE waybill.payments p SET conflicts = p.conflicts - 1 WHERE p.tenant_id = p_tenant AND p.id = v_payment;
END
$$;

COMMENT ON FUNCTION waybill.resolve_payment_conflict IS
  'Ends a conflict: somebody looked at the provider, put right what was wrong, and says how. For waybill_owner.';

CREATE FUNCTION waybill.retry_payment_conflict(p_tenant bigint, p_provider text, p_event text, p_new_refund uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c waybill.payment_conflicts;
  v_outcome text;
BEGIN
  SELECT x.* INTO c FROM waybill.payment_conflicts x
  WHERE x.tenant_id = p_tenant AND x.provider = p_provider AND x.event = p_event AND x.fact IS NOT NULL AND x.resolved_at IS NULL;
  IF c.event IS NULL THEN
    RETURN 'nothing-to-do';
  END IF;
  v_outcome := CASE c.subject
    WHEN 'payment' THEN waybill.apply_payment_fact(p_tenant, c.payment_id, c.fact, c.reference, c.amount, c.decline_code)
    ELSE waybill.apply_refund_fact(p_tenant, c.payment_id, c.refund_id, c.fact, c.reference, c.amount, c.decline_code, c.cause, p_new_refund)
    END;
  PERFORM waybill.resolve_payment_conflict(p_tenant, p_provider, p_event, 'it fits what came after it: ' || v_outcome);
  RETURN v_outcome;
END
$$;

COMMENT ON FUNCTION waybill.retry_payment_conflict IS
  'Applies the fact of a conflict after all, since facts come in any order; refuses what still can''t be.';

GRANT EXECUTE ON FUNCTION waybill.keep_webhook_event, waybill.retry_payment_conflict TO waybill_app;

-- migrations/sql/simulated-provider/1-books.sql

CREATE SCHEMA simulated_provider;

GRANT USAGE ON SCHEMA simulated_provider TO waybill_app;

CREATE TABLE simulated_provider.requests (
  idempotency_key text COLLATE "C" NOT NULL,
  fingerprint     text NOT NULL,
  arrivals        int NOT NULL DEFAULT 1,
  answer          jsonb,
  first_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT requests_pkey PRIMARY KEY (idempotency_key)
);

CREATE TABLE simulated_provider.intents (
  id          text COLLATE "C" NOT NULL,
  token       text NOT NULL,
  currency    text NOT NULL,
  amount      bigint NOT NULL,
  status      text NOT NULL,
  captured    bigint NOT NULL DEFAULT 0,
  refunded    bigint NOT NULL DEFAULT 0,
  metadata    jsonb NOT NULL,
  CONSTRAINT intents_pkey PRIMARY KEY (id),
  CONSTRAINT intents_status_check CHECK (status IN ('requires_capture', 'succeeded', 'canceled')),
  CONSTRAINT intents_refunded_within_captured CHECK (refunded <= captured AND captured <= amount)
);

CREATE INDEX intents_key_idx ON simulated_provider.intents ((metadata ->> 'waybill_key'));

CREATE TABLE simulated_provider.ledger (
  id        bigint GENERATED ALWAYS AS IDENTITY,
  intent_id text COLLATE "C" NOT NULL,
  operation text NOT NULL,
  amount    bigint NOT NULL,
  reference text COLLATE "C" NOT NULL,
  metadata  jsonb NOT NULL,
  booked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT ledger_pkey PRIMARY KEY (id),
  CONSTRAINT ledger_intent_fkey FOREIGN KEY (intent_id) REFERENCES simulated_provider.intents (id),
  CONSTRAINT ledger_operation_check CHECK (operation IN ('authorize', 'capture', 'void', 'refund'))
);

CREATE INDEX ledger_intent_idx ON simulated_provider.ledger (intent_id);

CREATE INDEX ledger_key_idx ON simulated_provider.ledger ((metadata ->> 'waybill_key'));

CREATE TABLE simulated_provider.webhook_secret (
  only_one boolean NOT NULL DEFAULT true,
  secret   text NOT NULL,
  CONSTRAINT webhook_secret_pkey PRIMARY KEY (only_one),
  CONSTRAINT webhook_secret_only_one CHECK (only_one)
);

INSERT INTO simulated_provider.webhook_secret (secret)
VALUES ('sim_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

GRANT SELECT ON ALL TABLES IN SCHEMA simulated_provider TO waybill_app;

COMMENT ON TABLE simulated_provider.ledger IS
  'What was really done with customers'' money, one row each; append-only.';

CREATE TRIGGER ledger_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON simulated_provider.ledger
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('the ledger is append-only');

CREATE FUNCTION simulated_provider.arrive(p_key text, p_fingerprint text) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_request simulated_provider.requests;
BEGIN
  INSERT INTO simulated_provider.requests AS r (idempotency_key, fingerprint) VALUES (p_key, p_fingerprint)
  ON CONFLICT (idempotency_key) DO UPDATE SET arrivals = r.arrivals + 1
  RETURNING * INTO v_request;
  IF v_request.fingerprint <> p_fingerprint THEN
    RAISE EXCEPTION 'key % was used for another request', p_key USING ERRCODE = 'SP001';
  END IF;
  RETURN v_request.arrivals;
END
$$;

COMMENT ON FUNCTION simulated_provider.arrive IS 'Counts a request under its key: 1 is the first one.';

CREATE FUNCTION simulated_provider.perform(
  p_key text, p_operation text, p_intent text, p_token text, p_currency text, p_amount bigint, p_metadata jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_answer jsonb;
  v_intent simulated_provider.intents;
  v_id text := 'sim_' || replace(gen_random_uuid()::text, '-', '');
BEGIN
  SELECT r.answer INTO STRICT v_answer FROM simulated_provider.requests r WHERE r.idempotency_key = p_key FOR UPDATE;
  IF v_answer IS NOT NULL THEN
    RETURN v_answer;
  END IF;
  IF p_operation = 'authorize' THEN
    IF p_token LIKE 'tok_declined%' THEN
      v_answer := jsonb_build_object('refused', coalesce(nullif(substring(p_token FROM '^tok_declined_(.+)$'), ''), 'generic_decline'));
    ELSE
      INSERT INTO simulated_provider.intents (id, token, currency, amount, status, metadata)
      VALUES (v_id, p_token, p_currency, p_amount, 'requires_capture', p_metadata) RETURNING * INTO v_intent;
    END IF;
  ELSE
    SELECT i.* INTO v_intent FROM simulated_provider.intents i WHERE i.id = p_intent FOR UPDATE;
    v_answer := CASE
      WHEN v_intent.id IS NULL THEN '{"refused": "resource_missing"}'
      WHEN v_intent.token = 'tok_' || p_operation || '_declined' THEN '{"refused": "generic_decline"}'
      WHEN p_operation IN ('capture', 'void') AND v_intent.status <> 'requires_capture' THEN '{"refused": "unexpected_state"}'
      WHEN p_operation = 'capture' AND p_amount > v_intent.amount THEN '{"refused": "amount_too_large"}'
      WHEN p_operation = 'refund' AND p_amount > v_intent.captured - v_intent.refunded THEN '{"refused": "amount_too_large"}'
      END;
    IF v_answer IS NULL THEN
      UPDATE simulated_provider.intents i
      SET status = CASE p_operation WHEN 'capture' THEN 'succeeded' WHEN 'void' THEN 'canceled' ELSE i.status END,
          captured = i.captured + CASE p_operation WHEN 'capture' THEN p_amount ELSE 0 END,
          refunded = i.refunded + CASE p_operation WHEN 'refund' THEN p_amount ELSE 0 END
      WHERE i.id = p_intent;
    END IF;
  END IF;
  IF v_answer IS NULL THEN
    -- As with real ones, a refund has an id of its own, and everything else is the intent's.
    v_answer := jsonb_build_object('reference', CASE p_operation WHEN 'refund' THEN v_id ELSE v_intent.id END, 'amount', p_amount);
    INSERT INTO simulated_provider.ledger (intent_id, operation, amount, reference, metadata)
    VALUES (v_intent.id, p_operation, p_amount, v_answer ->> 'reference', p_metadata);
  END IF;
  UPDATE simulated_provider.requests r SET answer = v_answer WHERE r.idempotency_key = p_key;
  RETURN v_answer;
END
$$;

COMMENT ON FUNCTION simulated_provider.perform IS
  'Does what a request asks for and books it, once for each key; the same key gives the same answer again.';

GRANT EXECUTE ON FUNCTION simulated_provider.arrive, simulated_provider.perform TO waybill_app;
