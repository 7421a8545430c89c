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
