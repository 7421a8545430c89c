CREATE TABLE waybill.log_policies (
  tenant_id bigint NOT NULL,
  is_public boolean NOT NULL,
  CONSTRAINT log_policies_pkey PRIMARY KEY (tenant_id),
  CONSTRAINT log_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants (id)
);

COMMENT ON TABLE waybill.log_policies IS
  'Whether anybody may read checkpoint and hashes of a tenant''s log, without credentials. A tenant without a row keeps them to itself.';

SELECT waybill.make_tenant_table('waybill.log_policies', 'set is_public to false instead', 'DELETE OR TRUNCATE');
