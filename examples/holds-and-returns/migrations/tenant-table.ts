const OWN_TENANT = `tenant_id = nullif(current_setting('waybill.tenant_id', true), '')::bigint`;

/**
 * What makes a table one of a tenant: its rows are seen by their tenant only, nobody writes without saying who acts, and
 * nothing is deleted.
 */
export function tenantTable(table: string, whyNotDeleted: string): string {
  return `
ALTER TABLE waybill.${table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY ${table}_tenant ON waybill.${table} USING (${OWN_TENANT}) WITH CHECK (${OWN_TENANT});
CREATE TRIGGER ${table}_00_context BEFORE INSERT OR UPDATE OR DELETE ON waybill.${table}
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context();
CREATE TRIGGER ${table}_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.${table}
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('${whyNotDeleted}');
GRANT SELECT ON waybill.${table} TO waybill_app, waybill_audit`;
}
