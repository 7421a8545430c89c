import type { Client } from 'pg';
import { OURS } from '../../database/schema/query-parts.js';

/** Read off the system catalogues, which every role may read. `name` is qualified by its schema. */
export interface Catalogue {
  relations: {
    name: string;
    kind: string;
    owner: string;
    isTenants: boolean;
    rls: boolean;
    force: boolean;
    invoker: boolean;
  }[];
  triggers: { table: string; name: string; enabled: string }[];
  functions: { name: string; owner: string; path: string | null; isPublic: boolean }[];
  /** Roles of Waybill, with powers that they must not have. */
  roles: { name: string; powers: string[]; memberOf: string[]; isLimited: boolean }[];
  /** Settings that somebody gave to a role or to this database: `role setting`. */
  overrides: { role: string; setting: string }[];
  /** Roles that can dump a database with forced row level security. */
  dumpers: { name: string; isSuperuser: boolean }[];
  connectsPublic: boolean;
}

const QUERIES: Record<keyof Omit<Catalogue, 'connectsPublic'>, string> = {
  relations: `
    SELECT n.nspname || '.' || c.relname AS name, c.relkind AS kind, pg_get_userbyid(c.relowner) AS owner,
           EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS "isTenants",
           c.relrowsecurity AS rls, c.relforcerowsecurity AS force,
           coalesce('security_invoker=true' = ANY (c.reloptions), false) AS invoker
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${OURS} AND c.relkind IN ('r', 'p', 'v', 'm', 'S') ORDER BY 1`,
  triggers: `
    SELECT n.nspname || '.' || c.relname AS table, t.tgname AS name, t.tgenabled AS enabled
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${OURS} AND NOT t.tgisinternal ORDER BY 1, 2`,
  functions: `
    SELECT n.nspname || '.' || p.proname AS name, pg_get_userbyid(p.proowner) AS owner,
           (SELECT setting FROM unnest(p.proconfig) setting WHERE setting LIKE 'search_path=%') AS path,
           EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                   WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') AS "isPublic"
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE ${OURS} ORDER BY 1`,
  roles: `
    SELECT r.rolname AS name,
           array_remove(ARRAY[CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END,
             CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END, CASE WHEN r.rolcreatedb THEN 'CREATEDB' END,
             CASE WHEN r.rolreplication THEN 'REPLICATION' END], NULL) AS powers,
           ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
                 WHERE m.member = r.oid ORDER BY 1) AS "memberOf",
           r.rolconnlimit >= 0 AS "isLimited"
    FROM pg_roles r WHERE r.rolname IN ('waybill_owner', 'waybill_audit', 'waybill_app', 'waybill_sealer') ORDER BY 1`,
  overrides: `
    SELECT coalesce(r.rolname, '(every role)') AS role, setting
    FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) AS setting
    WHERE (s.setrole = 0 OR r.rolname LIKE 'waybill\\_%')
      AND (s.setdatabase = 0 OR s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))
    ORDER BY 1, 2`,
  dumpers: `
    SELECT rolname AS name, rolsuper AS "isSuperuser" FROM pg_roles
    WHERE rolcanlogin AND (rolsuper OR rolbypassrls) ORDER BY rolsuper, rolname`,
};

const CONNECTS_PUBLIC = `
  SELECT EXISTS (SELECT FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
                 WHERE a.grantee = 0 AND a.privilege_type = 'CONNECT') AS is
  FROM pg_database d WHERE d.datname = current_database()`;

export async function readCatalogue(client: Client): Promise<Catalogue> {
  const parts: [string, unknown][] = [];
  for (const [part, text] of Object.entries(QUERIES)) parts.push([part, (await client.query(text)).rows]);
  const [connects] = (await client.query<{ is: boolean }>(CONNECTS_PUBLIC)).rows;
  return { ...Object.fromEntries(parts), connectsPublic: connects?.is ?? false } as Catalogue;
}

/** Rights of the app role that would undo what the schema promises, whoever made what they are on. */
export async function forbiddenGrants(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ grant: string }>(`
    SELECT format('waybill_app may %s %s.%s', privilege, n.nspname, c.relname) AS grant
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
         unnest(CASE n.nspname WHEN 'audit' THEN ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']
                               ELSE ARRAY['TRUNCATE', 'TRIGGER'] END) AS privilege
    WHERE ${OURS} AND c.relkind IN ('r', 'p') AND has_table_privilege('waybill_app', c.oid, privilege)
    UNION ALL
    SELECT format('waybill_app may CREATE in schema %s', n.nspname) FROM pg_namespace n
    WHERE n.nspname IN ('waybill', 'audit', 'public') AND has_schema_privilege('waybill_app', n.oid, 'CREATE')
    ORDER BY 1`);
  return rows.map((row) => row.grant);
}
