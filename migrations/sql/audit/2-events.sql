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
