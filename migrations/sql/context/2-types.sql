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
