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
