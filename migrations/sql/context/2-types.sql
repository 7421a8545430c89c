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

CREATE DOMAIN waybill.reason AS text
  CONSTRAINT reason_length CHECK (length(VALUE) BETWEEN 1 AND 500);

CREATE DOMAIN waybill.bytes32 AS bytea
  CONSTRAINT bytes32_length CHECK (octet_length(VALUE) = 32);

COMMENT ON DOMAIN waybill.bytes32 IS 'A salt, an Ed25519 public key, or a SHA-256.';

CREATE DOMAIN waybill.json_object AS jsonb
  CONSTRAINT json_object_type CHECK (jsonb_typeof(VALUE) = 'object');
