import type { Client } from 'pg';

/*
 * The schema as text, from catalogue queries: for reviewers, who see in one place what a migration changed, and for the
 * golden test. It says the same on PostgreSQL 15 and 18: NOT NULL constraints, which only 18 lists, stand with the
 * column, privileges that only newer versions know are left out, and views come without the qualifications that 15 adds.
 */

const OURS = `n.nspname IN ('waybill', 'audit')`;
/** MAINTAIN came with 17; owners hold everything. */
const GRANTS = (acl: string, owner: string, kind: string) => `
  (SELECT string_agg(format('GRANT %s TO %s', rights, grantee), E'\\n' ORDER BY grantee COLLATE "C", rights COLLATE "C") FROM (
     SELECT coalesce(r.rolname, 'PUBLIC') AS grantee, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type COLLATE "C") AS rights
     FROM aclexplode(coalesce(${acl}, acldefault('${kind}', ${owner}))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
     WHERE a.grantee <> ${owner} AND a.privilege_type <> 'MAINTAIN' GROUP BY r.rolname) g)`;

const SECTIONS: { title: string; query: string }[] = [
  {
    title: 'Schemas',
    query: `SELECT format('SCHEMA %s OWNER %s', n.nspname, n.nspowner::regrole) AS head, ${GRANTS('n.nspacl', 'n.nspowner', 'n')} AS body
      FROM pg_namespace n WHERE ${OURS} ORDER BY n.nspname COLLATE "C"`,
  },
  {
    title: 'Tables',
    query: `SELECT format('TABLE %s.%s OWNER %s%s%s', n.nspname, c.relname, c.relowner::regrole,
          CASE WHEN c.relrowsecurity THEN ' ROW LEVEL SECURITY' ELSE '' END, CASE WHEN c.relforcerowsecurity THEN ' FORCED' ELSE '' END) AS head,
        concat_ws(E'\\n',
          '-- ' || replace(obj_description(c.oid, 'pg_class'), E'\\n', ' '),
          (SELECT string_agg(format('%s %s%s%s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
               CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN ' COLLATE ' || (SELECT quote_ident(l.collname) FROM pg_collation l WHERE l.oid = a.attcollation) ELSE '' END,
               CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END,
               CASE a.attidentity WHEN 'a' THEN ' ALWAYS AS IDENTITY' WHEN 'd' THEN ' BY DEFAULT AS IDENTITY' ELSE '' END,
               ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid),
               ' -- ' || col_description(c.oid, a.attnum)), E'\\n' ORDER BY a.attnum)
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
          (SELECT string_agg(format('CONSTRAINT %s %s', k.conname, pg_get_constraintdef(k.oid)), E'\\n' ORDER BY k.conname COLLATE "C")
             FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'f', 'c', 'x')),
          (SELECT string_agg(pg_get_indexdef(i.indexrelid), E'\\n' ORDER BY pg_get_indexdef(i.indexrelid) COLLATE "C")
             FROM pg_index i WHERE i.indrelid = c.oid AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u'))),
          (SELECT string_agg(format('POLICY %s %s FOR %s TO %s%s%s', p.polname, CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
               CASE p.polcmd WHEN '*' THEN 'ALL' WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' ELSE 'DELETE' END,
               (SELECT string_agg(CASE r.oid WHEN 0 THEN 'PUBLIC' ELSE r.oid::regrole::text END, ', ' ORDER BY r.oid::regrole::text COLLATE "C") FROM unnest(p.polroles) r(oid)),
               ' USING ' || pg_get_expr(p.polqual, p.polrelid), ' WITH CHECK ' || pg_get_expr(p.polwithcheck, p.polrelid)), E'\\n' ORDER BY p.polname COLLATE "C")
             FROM pg_policy p WHERE p.polrelid = c.oid),
          (SELECT string_agg(pg_get_triggerdef(t.oid) || CASE t.tgenabled WHEN 'O' THEN '' ELSE ' -- ' || CASE t.tgenabled WHEN 'A' THEN 'ALWAYS' WHEN 'D' THEN 'DISABLED' ELSE 'REPLICA' END END,
               E'\\n' ORDER BY t.tgname COLLATE "C") FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
          ${GRANTS('c.relacl', 'c.relowner', 'r')},
          (SELECT string_agg(format('GRANT %s (%s) TO %s', x.privilege_type, a.attname, x.grantee::regrole), E'\\n' ORDER BY a.attnum, x.privilege_type)
             FROM pg_attribute a, aclexplode(a.attacl) x WHERE a.attrelid = c.oid AND x.privilege_type <> 'MAINTAIN')) AS body
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND c.relkind IN ('r', 'p')
      ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`,
  },
  {
    title: 'Views',
    query: `SELECT format('VIEW %s.%s OWNER %s WITH (%s)', n.nspname, c.relname, c.relowner::regrole, array_to_string(c.reloptions, ', ')) AS head,
        concat_ws(E'\\n', '-- ' || obj_description(c.oid, 'pg_class'), pg_get_viewdef(c.oid), ${GRANTS('c.relacl', 'c.relowner', 'r')}) AS body
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND c.relkind = 'v'
      ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`,
  },
  {
    title: 'Sequences',
    query: `SELECT format('SEQUENCE %s.%s OWNER %s', n.nspname, c.relname, c.relowner::regrole) AS head, ${GRANTS('c.relacl', 'c.relowner', 's')} AS body
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND c.relkind = 'S'
      ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`,
  },
  {
    title: 'Functions',
    query: `SELECT format('FUNCTION %s.%s OWNER %s', n.nspname, p.proname, p.proowner::regrole) AS head,
        concat_ws(E'\\n', '-- ' || obj_description(p.oid, 'pg_proc'), rtrim(pg_get_functiondef(p.oid), E'\\n'), ${GRANTS('p.proacl', 'p.proowner', 'f')}) AS body
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE ${OURS}
      ORDER BY n.nspname COLLATE "C", p.proname COLLATE "C", pg_get_function_identity_arguments(p.oid) COLLATE "C"`,
  },
  {
    title: 'Default privileges',
    query: `SELECT format('DEFAULT %s OF %s', CASE d.defaclobjtype WHEN 'f' THEN 'FUNCTIONS' WHEN 'r' THEN 'TABLES' ELSE d.defaclobjtype::text END, d.defaclrole::regrole) AS head,
        (SELECT string_agg(format('%s TO %s', a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END), E'\\n' ORDER BY a.grantee::regrole::text COLLATE "C") FROM aclexplode(d.defaclacl) a) AS body
      FROM pg_default_acl d ORDER BY d.defaclrole::regrole::text COLLATE "C"`,
  },
  {
    title: 'State machines',
    query: `SELECT format('MACHINE %s OF %s BEGINS AS %s', m.machine, m.entity_table, m.initial_state) AS head,
        (SELECT string_agg(format('%s -> %s BY %s%s%s', t.from_state, t.to_state, array_to_string(t.roles, ', '),
             CASE WHEN t.requires_reason THEN ' WITH REASON' ELSE '' END, ' GUARDED BY ' || nullif(array_to_string(t.guards, ', '), '')),
             E'\\n' ORDER BY t.from_state, t.to_state) FROM waybill.valid_transitions t WHERE t.machine = m.machine) AS body
      FROM waybill.machines m ORDER BY m.machine`,
  },
];

const HEAD = `-- The schema as the migrations make it, for reading and reviewing; nothing runs this file. The golden test compares it:
--   UPDATE_GOLDEN=1 npm test -- golden-schema
-- writes it anew after a migration was changed or added.
`;

/** The whole schema of the database that a superuser's client is connected to. */
export async function schemaText(client: Client): Promise<string> {
  await client.query(`SET search_path = pg_catalog`);
  const parts = [HEAD];
  for (const { title, query } of SECTIONS) {
    const { rows } = await client.query<{ head: string; body: string | null }>(query);
    if (rows.length === 0) continue;
    parts.push(`\n-- ${title} ${'-'.repeat(112 - title.length)}\n`);
    for (const { head, body } of rows) {
      const text = title === 'Views' ? unqualified(body ?? '') : (body ?? '');
      parts.push(`\n${head}\n${indent(text)}`);
    }
  }
  return normalise(parts.join(''));
}

/** PostgreSQL 15 writes the table's name before each column of a view, newer versions only where there are several. */
function unqualified(view: string): string {
  return view.replaceAll(/^( *(?:SELECT )?)[a-z_]+\.([a-z_]+,?)$/gm, '$1$2');
}

function indent(text: string): string {
  return text === '' ? '' : `${text.replaceAll(/^(?=.)/gm, '  ')}\n`;
}

function normalise(text: string): string {
  return text.replaceAll(/[ \t]+$/gm, '').replaceAll(/\n{3,}/g, '\n\n');
}
