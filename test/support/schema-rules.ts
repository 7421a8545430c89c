import type { Client } from 'pg';

/** Tables that belong to no tenant. Every other table of the two schemas must keep the rules of tenant tables. */
const REFERENCE_TABLES = ['waybill.tenants', 'waybill.machines', 'waybill.valid_transitions', 'waybill.step_rules'];

const OURS = `n.nspname IN ('waybill', 'audit')`;
const TENANT_TABLE = `${OURS} AND c.relkind IN ('r', 'p') AND format('%s.%s', n.nspname, c.relname) <> ALL ($1)`;
const TABLES = `pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace`;

interface Rule {
  says: string;
  /** Rows with one column `what`: the violations. $1 is the list of reference tables. */
  query: string;
}

/** The rules of the data model that a catalogue can tell. Each query finds what breaks one. */
export const SCHEMA_RULES: readonly Rule[] = [
  {
    says: 'a tenant table has a column tenant_id, bigint and NOT NULL',
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${TENANT_TABLE} AND NOT EXISTS (
      SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND a.atttypid = 'bigint'::regtype AND a.attnotnull)`,
  },
  {
    says: 'tenant_id is bigint wherever it stands, in views and functions too',
    query: `SELECT format('%s.%s', c.oid::regclass, a.attname) AS what FROM ${TABLES} JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE ${OURS} AND a.attname = 'tenant_id' AND a.atttypid <> 'bigint'::regtype AND $1::text[] IS NOT NULL
      UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace,
        unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[])) AS x(name, type)
      WHERE ${OURS} AND x.name IN ('p_tenant', 'p_tenant_id', 'tenant_id') AND x.type <> 'bigint'::regtype`,
  },
  {
    says: 'a tenant table has FORCE ROW LEVEL SECURITY',
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${TENANT_TABLE} AND NOT (c.relrowsecurity AND c.relforcerowsecurity)`,
  },
  {
    says: 'a tenant table has a policy, and each policy that holds for the app role looks at the tenant',
    query: `SELECT c.oid::regclass::text AS what FROM ${TABLES} WHERE ${TENANT_TABLE} AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)
      UNION ALL SELECT format('%s on %s', p.polname, c.oid::regclass) FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${TENANT_TABLE} AND (0 = ANY (p.polroles) OR 'waybill_app'::regrole = ANY (p.polroles) OR 'waybill_owner'::regrole = ANY (p.polroles))
        AND NOT (coalesce(pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) LIKE '%(tenant_id = %waybill.tenant_id%'
                 AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), pg_get_expr(p.polqual, p.polrelid)) LIKE '%(tenant_id = %waybill.tenant_id%')`,
  },
  {
    says: 'tenant_id is first in every primary key, unique index and index of a tenant table',
    query: `SELECT i.indexrelid::regclass AS what FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${TENANT_TABLE} AND NOT EXISTS (SELECT FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum = i.indkey[0] AND a.attname = 'tenant_id')`,
  },
  {
    says: 'a tenant table has a primary key',
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${TENANT_TABLE}
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p')`,
  },
  {
    // Without statistics the planner takes the youngest of the indexes that hold the key's columns, and plans are kept.
    says: 'the primary key is made after every index that holds all of its columns',
    query: `SELECT i.indexrelid::regclass AS what FROM pg_index i
        JOIN pg_index k ON k.indrelid = i.indrelid AND k.indisprimary AND k.indexrelid < i.indexrelid
        JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${TENANT_TABLE} AND k.indkey::int[] <@ i.indkey::int[]`,
  },
  {
    says: 'a foreign key of a tenant table begins with tenant_id on both sides',
    query: `SELECT format('%s on %s', k.conname, c.oid::regclass) AS what FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${TENANT_TABLE} AND k.contype = 'f' AND NOT (
        EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attnum = k.conkey[1] AND a.attname = 'tenant_id')
        AND (k.confrelid = 'waybill.tenants'::regclass
             OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = k.confrelid AND a.attnum = k.confkey[1] AND a.attname = 'tenant_id')))`,
  },
  {
    says: 'no foreign key sets null, sets a default or cascades',
    query: `SELECT format('%s on %s', k.conname, c.oid::regclass) AS what FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${OURS} AND k.contype = 'f' AND (k.confdeltype NOT IN ('a', 'r') OR k.confupdtype NOT IN ('a', 'r')) AND $1::text[] IS NOT NULL`,
  },
  {
    says: 'no constraint and no trigger is deferrable',
    query: `SELECT format('%s on %s', k.conname, c.oid::regclass) AS what FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND k.condeferrable AND $1::text[] IS NOT NULL
      UNION ALL SELECT format('%s on %s', t.tgname, c.oid::regclass) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND t.tgdeferrable`,
  },
  {
    says: 'every constraint is valid',
    query: `SELECT format('%s on %s', k.conname, c.oid::regclass) AS what FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND NOT k.convalidated AND $1::text[] IS NOT NULL`,
  },
  {
    says: 'no column of a tenant table is a serial, an identity or takes its default from a sequence',
    query: `SELECT format('%s.%s', c.oid::regclass, a.attname) AS what FROM ${TABLES} JOIN pg_attribute a ON a.attrelid = c.oid
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
      WHERE ${TENANT_TABLE} AND a.attnum > 0 AND NOT a.attisdropped
        AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE '%nextval%')`,
  },
  {
    says: 'ids are uuid, not numbers: id and *_id of a tenant table, but for tenant_id and request_id',
    query: `SELECT format('%s.%s', c.oid::regclass, a.attname) AS what FROM ${TABLES} JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE ${TENANT_TABLE} AND a.attnum > 0 AND NOT a.attisdropped AND a.attname ~ '(^|_)id$'
        AND a.attname NOT IN ('tenant_id', 'request_id') AND a.atttypid <> 'uuid'::regtype`,
  },
  {
    says: 'times are timestamptz',
    query: `SELECT format('%s.%s', c.oid::regclass, a.attname) AS what FROM ${TABLES} JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE ${OURS} AND a.attnum > 0 AND NOT a.attisdropped AND $1::text[] IS NOT NULL
        AND a.atttypid IN ('timestamp'::regtype, 'timetz'::regtype, 'money'::regtype, 'real'::regtype, 'float8'::regtype)`,
  },
  {
    says: 'constraints, indexes, triggers and policies carry a name of ours: that of their table, then what they do',
    query: `SELECT format('constraint %s on %s', k.conname, c.oid::regclass) AS what FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${OURS} AND $1::text[] IS NOT NULL AND k.contype IN ('p', 'u', 'f', 'c', 'x') AND NOT (
        starts_with(k.conname, c.relname || '_') AND CASE k.contype WHEN 'p' THEN k.conname = c.relname || '_pkey'
          WHEN 'u' THEN k.conname ~ '_key$' WHEN 'f' THEN k.conname ~ '_fkey$' ELSE k.conname !~ '_check[0-9]+$' END)
      UNION ALL SELECT format('index %s on %s', i.indexrelid::regclass, c.oid::regclass) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${OURS} AND NOT (starts_with(x.relname, c.relname || '_') AND x.relname ~ '_(pkey|key|idx)$')
      UNION ALL SELECT format('trigger %s on %s', t.tgname, c.oid::regclass) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE ${OURS} AND NOT t.tgisinternal AND NOT (starts_with(t.tgname, c.relname || '_') AND substr(t.tgname, length(c.relname) + 1) ~ '^_[0-9]{2}_[a-z_]+$')
      UNION ALL SELECT format('policy %s on %s', p.polname, c.oid::regclass) FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND NOT starts_with(p.polname, c.relname || '_')`,
  },
  {
    says: 'a tenant table refuses changes without a context, unless it is of schema audit',
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${TENANT_TABLE} AND n.nspname = 'waybill' AND NOT EXISTS (
      SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgfoid = 'waybill.require_context'::regproc AND t.tgenabled IN ('O', 'A')
        AND (t.tgtype & 1) = 0 AND (t.tgtype & 2) = 2 AND (t.tgtype & 28) = 28)`,
  },
  {
    says: 'a tenant table refuses to be truncated',
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${TENANT_TABLE} AND NOT EXISTS (
      SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND (t.tgtype & 34) = 34 AND t.tgenabled IN ('O', 'A'))`,
  },
  {
    says: 'a table of schema audit refuses UPDATE, DELETE and TRUNCATE, even under session_replication_role',
    // From the queue rows go when they are sealed: it refuses UPDATE (16) and TRUNCATE (32) only.
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${TENANT_TABLE} AND n.nspname = 'audit' AND NOT EXISTS (
      SELECT FROM pg_trigger t, LATERAL (SELECT CASE c.relname WHEN 'queue' THEN 50 ELSE 58 END AS mask) m
      WHERE t.tgrelid = c.oid AND (t.tgtype & m.mask) = m.mask AND t.tgenabled = 'A')`,
  },
  {
    says: 'every function pins its search_path to pg_catalog, pg_temp',
    query: `SELECT p.oid::regprocedure AS what FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE ${OURS} AND $1::text[] IS NOT NULL
        AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)`,
  },
  {
    says: 'PUBLIC holds nothing: no EXECUTE, no right on a table, a schema or the database',
    query: `SELECT p.oid::regprocedure::text AS what FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace,
        aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE ${OURS} AND a.grantee = 0 AND $1::text[] IS NOT NULL
      UNION ALL SELECT c.oid::regclass::text FROM ${TABLES}, aclexplode(c.relacl) a WHERE ${OURS} AND a.grantee = 0
      UNION ALL SELECT 'schema ' || n.nspname FROM pg_namespace n, aclexplode(n.nspacl) a WHERE ${OURS} AND a.grantee = 0
      UNION ALL SELECT 'database: ' || a.privilege_type FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
        WHERE d.datname = current_database() AND a.grantee = 0`,
  },
  {
    says: 'every view is security_invoker, and none is materialised',
    query: `SELECT c.oid::regclass AS what FROM ${TABLES} WHERE ${OURS} AND $1::text[] IS NOT NULL AND (c.relkind = 'm'
      OR c.relkind = 'v' AND NOT coalesce(c.reloptions && ARRAY['security_invoker=true', 'security_invoker=on'], false))`,
  },
  {
    says: 'waybill_owner owns schema waybill, waybill_audit owns schema audit, and nobody else owns anything',
    query: `SELECT c.oid::regclass::text AS what FROM ${TABLES} WHERE ${OURS} AND $1::text[] IS NOT NULL
        AND c.relowner <> CASE n.nspname WHEN 'audit' THEN 'waybill_audit' ELSE 'waybill_owner' END::regrole
      UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE ${OURS} AND p.proowner <> CASE n.nspname WHEN 'audit' THEN 'waybill_audit' ELSE 'waybill_owner' END::regrole
      UNION ALL SELECT format('%s owns %s', o.refobjid::regrole, pg_describe_object(o.classid, o.objid, o.objsubid)) FROM pg_shdepend o
        WHERE o.deptype = 'o' AND o.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND o.refclassid = 'pg_authid'::regclass AND o.refobjid IN ('waybill_app'::regrole, 'waybill_sealer'::regrole)`,
  },
  {
    says: 'the app role and the sealer are no members of another role, and neither superuser nor BYPASSRLS',
    query: `SELECT format('%s in %s', m.member::regrole, m.roleid::regrole) AS what FROM pg_auth_members m
        WHERE m.member IN ('waybill_app'::regrole, 'waybill_sealer'::regrole) AND $1::text[] IS NOT NULL
      UNION ALL SELECT r.rolname::text FROM pg_roles r WHERE r.rolname LIKE 'waybill\\_%'
        AND (r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication)`,
  },
  {
    says: 'the app role writes nothing in schema audit and executes nothing there that writes',
    query: `SELECT format('%s on %s', r.right, c.oid::regclass) AS what FROM ${TABLES},
        unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']) AS r("right")
      WHERE n.nspname = 'audit' AND c.relkind IN ('r', 'p', 'v') AND has_table_privilege('waybill_app', c.oid, r.right) AND $1::text[] IS NOT NULL
      UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE n.nspname = 'audit' AND (p.prosecdef OR p.provolatile = 'v') AND has_function_privilege('waybill_app', p.oid, 'EXECUTE')`,
  },
  {
    says: 'the app role writes no reference table, deletes and truncates nothing, and creates nothing',
    query: `SELECT format('%s on %s', r.right, c.oid::regclass) AS what FROM ${TABLES}, unnest(ARRAY['DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']) AS r("right")
      WHERE ${OURS} AND c.relkind IN ('r', 'p') AND c.relname <> 'idempotency_keys' AND has_table_privilege('waybill_app', c.oid, r.right)
      UNION ALL SELECT format('%s on %s', r.right, t.name) FROM unnest($1::text[]) AS t(name), unnest(ARRAY['INSERT', 'UPDATE']) AS r("right")
      WHERE has_table_privilege('waybill_app', t.name, r.right)
      UNION ALL SELECT format('%s on schema %s', r.right, n.nspname) FROM pg_namespace n, unnest(ARRAY['CREATE']) AS r("right")
      WHERE n.nspname !~ '^pg_' AND has_schema_privilege('waybill_app', n.oid, r.right)
      UNION ALL SELECT r.right || ' on the database' FROM unnest(ARRAY['CREATE', 'TEMPORARY']) AS r("right")
      WHERE has_database_privilege('waybill_app', current_database(), r.right)`,
  },
  {
    says: 'the app role writes lines, contacts and history through commands alone',
    query: `SELECT format('%s on %s', r.right, c.oid::regclass) AS what FROM ${TABLES}, unnest(ARRAY['INSERT', 'UPDATE']) AS r("right")
      WHERE n.nspname = 'waybill' AND c.relname ~ '(_lines|_contacts|_status_history)$' AND has_any_column_privilege('waybill_app', c.oid, r.right)
        AND $1::text[] IS NOT NULL`,
  },
  {
    says: 'a SECURITY DEFINER function that is no trigger is one the app role is meant to call, with the tenant as parameter',
    query: `SELECT p.oid::regprocedure AS what FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE ${OURS} AND p.prosecdef AND p.prorettype <> 'trigger'::regtype AND p.proname NOT IN ('states_in_use', 'tenant_ids', 'find_tenant') AND $1::text[] IS NOT NULL
        AND coalesce(p.proargnames[1], '') <> 'p_tenant'`,
  },
];

/** Every violation, as `rule: what`; of the schema as this client's transaction sees it. */
export async function violations(client: Client): Promise<string[]> {
  const found: string[] = [];
  for (const { says, query } of SCHEMA_RULES) {
    const uses = query.includes('$1');
    const { rows } = await client.query<{ what: string }>(query, uses ? [REFERENCE_TABLES] : []);
    found.push(...rows.map(({ what }) => `${says}: ${what}`));
  }
  return found;
}
