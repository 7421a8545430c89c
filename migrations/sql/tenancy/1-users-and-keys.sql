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
