import type { Client } from 'pg';
import { unquoted } from '../../src/database/schema/schema-object.js';

/**
 * What PostgreSQL refuses to keep when these views and functions go: other views, functions that return a view's row,
 * triggers, policies, indexes. The bodies of functions are no such dependents.
 *
 * @param keys such as `view waybill.order_details` and `function waybill.next_states(text,text)`
 * @returns keys
 */
export async function dependentsOf(client: Client, keys: readonly string[]): Promise<string[]> {
  await client.query(`SET search_path = pg_catalog`);
  const { rows } = await client.query<{ key: string }>(
    `WITH RECURSIVE gone (class, object) AS (
       SELECT 'pg_class'::regclass::oid, substr(key, 6)::regclass::oid FROM unnest($1::text[]) key WHERE key LIKE 'view %'
       UNION SELECT 'pg_proc'::regclass::oid, substr(key, 10)::regprocedure::oid FROM unnest($1::text[]) key WHERE key LIKE 'function %'
       UNION SELECT CASE WHEN r.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass::oid END, coalesce(r.ev_class, d.objid)
         FROM gone g JOIN pg_depend d ON d.refclassid = g.class AND d.refobjid = g.object AND d.deptype IN ('n', 'a', 'i')
         LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
     )
     SELECT CASE c.relkind WHEN 'i' THEN 'index ' WHEN 'v' THEN 'view ' ELSE 'table ' END || c.oid::regclass AS key
       FROM gone g JOIN pg_class c ON g.class = 'pg_class'::regclass AND c.oid = g.object
     UNION SELECT 'function ' || g.object::regprocedure FROM gone g WHERE g.class = 'pg_proc'::regclass
     UNION SELECT format('trigger %s on %s', t.tgname, t.tgrelid::regclass)
       FROM gone g JOIN pg_trigger t ON g.class = 'pg_trigger'::regclass AND t.oid = g.object
     UNION SELECT format('policy %s on %s', p.polname, p.polrelid::regclass)
       FROM gone g JOIN pg_policy p ON g.class = 'pg_policy'::regclass AND p.oid = g.object`,
    [keys],
  );
  await client.query(`RESET search_path`);
  return rows.map(({ key }) => unquoted(key));
}
