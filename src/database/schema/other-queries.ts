import { AFTER, OURS } from './query-parts.js';

/** All that isn't a table, and the rights on everything. Each query gives rows of SchemaObject. */
const SCHEMAS = `
  SELECT 'schema' AS kind, quote_ident(n.nspname) AS name, 'schema ' || quote_ident(n.nspname) AS of, n.nspowner::regrole AS owner,
    n.oid AS made, format('CREATE SCHEMA %I AUTHORIZATION %s;', n.nspname, n.nspowner::regrole) AS create,
    format('DROP SCHEMA %I CASCADE;', n.nspname) AS drop
  FROM pg_namespace n WHERE ${OURS}`;

const DEFAULT_PRIVILEGES = `
  SELECT 'default privileges' AS kind, format('%s of %s', lower(x.objects), d.defaclrole::regrole) AS name,
    format('default privileges %s of %s', lower(x.objects), d.defaclrole::regrole) AS of, d.defaclrole::regrole AS owner, d.oid AS made,
    string_agg(format('ALTER DEFAULT PRIVILEGES %s %s ON %s %s %s;', CASE WHEN a.granted THEN 'GRANT' ELSE 'REVOKE' END, a.privilege_type,
      x.objects, CASE WHEN a.granted THEN 'TO' ELSE 'FROM' END, a.role), E'\\n' ORDER BY a.role, a.privilege_type) AS create,
    string_agg(format('ALTER DEFAULT PRIVILEGES %s %s ON %s %s %s;', CASE WHEN a.granted THEN 'REVOKE' ELSE 'GRANT' END, a.privilege_type,
      x.objects, CASE WHEN a.granted THEN 'FROM' ELSE 'TO' END, a.role), E'\\n' ORDER BY a.role, a.privilege_type) AS drop
  FROM pg_default_acl d
  CROSS JOIN LATERAL (SELECT CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS'
                        WHEN 'T' THEN 'TYPES' ELSE 'SCHEMAS' END AS objects) x
  CROSS JOIN LATERAL (
    SELECT true AS granted, g.privilege_type, CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END AS role
    FROM (SELECT grantee, privilege_type FROM aclexplode(d.defaclacl)
          EXCEPT SELECT grantee, privilege_type FROM aclexplode(acldefault(d.defaclobjtype, d.defaclrole))) g
    UNION ALL
    SELECT false, g.privilege_type, CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END
    FROM (SELECT grantee, privilege_type FROM aclexplode(acldefault(d.defaclobjtype, d.defaclrole))
          EXCEPT SELECT grantee, privilege_type FROM aclexplode(d.defaclacl)) g) a
  GROUP BY d.oid, d.defaclrole, x.objects`;

const DOMAINS = `
  SELECT 'domain' AS kind, format_type(t.oid, NULL) AS name, 'domain ' || format_type(t.oid, NULL) AS of, t.typowner::regrole AS owner,
    t.oid AS made, format('DROP DOMAIN %s;', format_type(t.oid, NULL)) AS drop,
    format('CREATE DOMAIN %s AS %s%s%s%s;', format_type(t.oid, NULL), format_type(t.typbasetype, t.typtypmod),
      CASE WHEN t.typcollation <> b.typcollation
        THEN ' COLLATE ' || (SELECT quote_ident(l.collname) FROM pg_collation l WHERE l.oid = t.typcollation) END,
      ' DEFAULT ' || t.typdefault, CASE WHEN t.typnotnull THEN ' NOT NULL' END) AS create
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace JOIN pg_type b ON b.oid = t.typbasetype
  WHERE ${OURS} AND t.typtype = 'd'`;

const DOMAIN_CONSTRAINTS = `
  SELECT 'constraint' AS kind, format('%s on %s', k.conname, format_type(t.oid, NULL)) AS name, 'domain ' || format_type(t.oid, NULL) AS of,
    t.typowner::regrole AS owner, k.oid AS made,
    format('ALTER DOMAIN %s ADD CONSTRAINT %I %s;', format_type(t.oid, NULL), k.conname, pg_get_constraintdef(k.oid)) AS create,
    format('ALTER DOMAIN %s DROP CONSTRAINT %I;', format_type(t.oid, NULL), k.conname) AS drop
  FROM pg_constraint k JOIN pg_type t ON t.oid = k.contypid JOIN pg_namespace n ON n.oid = t.typnamespace
  WHERE ${OURS} AND k.contype = 'c'`;

/** Composite ones and enumerations that somebody made; a table's row is a type of its own. */
const TYPES = `
  SELECT 'type' AS kind, format_type(t.oid, NULL) AS name, 'type ' || format_type(t.oid, NULL) AS of, t.typowner::regrole AS owner,
    t.oid AS made, format('DROP TYPE %s;', format_type(t.oid, NULL)) AS drop,
    CASE t.typtype WHEN 'e' THEN
      format('CREATE TYPE %s AS ENUM (%s);', format_type(t.oid, NULL),
        (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
    ELSE
      format(E'CREATE TYPE %s AS (\\n%s\\n);', format_type(t.oid, NULL),
        (SELECT string_agg(format('  %I %s', a.attname, format_type(a.atttypid, a.atttypmod)), E',\\n' ORDER BY a.attnum)
         FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)) END AS create
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_class c ON c.oid = t.typrelid
  WHERE ${OURS} AND (t.typtype = 'e' OR (t.typtype = 'c' AND c.relkind = 'c'))`;

/** Those of identity columns come with their table. */
const SEQUENCES = `
  SELECT 'sequence' AS kind, c.oid::regclass::text AS name, 'sequence ' || c.oid::regclass AS of, c.relowner::regrole AS owner, c.oid AS made,
    format('CREATE SEQUENCE %s AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s%s;', c.oid::regclass,
      format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, CASE WHEN s.seqcycle THEN ' CYCLE' END) AS create,
    format('DROP SEQUENCE %s;', c.oid::regclass) AS drop
  FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE ${OURS} AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i')`;

const VIEWS = `
  SELECT 'view' AS kind, c.oid::regclass::text AS name, 'view ' || c.oid::regclass AS of, c.relowner::regrole AS owner, c.oid AS made,
    format(E'CREATE %sVIEW %s%s AS\\n%s', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END, c.oid::regclass,
      ' WITH (' || array_to_string(c.reloptions, ', ') || ')', pg_get_viewdef(c.oid)) AS create,
    format('DROP %sVIEW %s;', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' END, c.oid::regclass) AS drop
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND c.relkind IN ('v', 'm')`;

const FUNCTIONS = `
  SELECT 'function' AS kind, p.oid::regprocedure::text AS name, 'function ' || p.oid::regprocedure AS of, p.proowner::regrole AS owner,
    p.oid AS made, rtrim(pg_get_functiondef(p.oid), E'\\n') || ';' AS create, format('DROP ROUTINE %s;', p.oid::regprocedure) AS drop
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE ${OURS} AND p.prokind <> 'a'`;

const COMMENTS = `
  SELECT 'comment' AS kind, x.what AS name, x.of, x.owner::regrole AS owner, x.made::bigint + ${AFTER} AS made,
    format('COMMENT ON %s IS %L;', x.what, x.text) AS create, format('COMMENT ON %s IS NULL;', x.what) AS drop
  FROM (
    SELECT format('SCHEMA %I', n.nspname) AS what, 'schema ' || quote_ident(n.nspname) AS of, n.nspowner AS owner,
      obj_description(n.oid, 'pg_namespace') AS text, n.oid AS made FROM pg_namespace n WHERE ${OURS}
    UNION ALL SELECT format('%s %s', CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, format_type(t.oid, NULL)),
      format('%s %s', CASE t.typtype WHEN 'd' THEN 'domain' ELSE 'type' END, format_type(t.oid, NULL)), t.typowner,
      obj_description(t.oid, 'pg_type'), t.oid FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE ${OURS}
    UNION ALL SELECT format('%s %s', x.kind, c.oid::regclass), format('%s %s', lower(x.kind), c.oid::regclass), c.relowner,
      obj_description(c.oid, 'pg_class'), c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
      LATERAL (SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'SEQUENCE' END AS kind) x WHERE ${OURS} AND c.relkind IN ('v', 'S')
    UNION ALL SELECT format('%s %s', CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, p.oid::regprocedure),
      'function ' || p.oid::regprocedure, p.proowner, obj_description(p.oid, 'pg_proc'), p.oid
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE ${OURS}) x
  WHERE x.text IS NOT NULL`;

/** One right of one role; what the owner holds is left out, and MAINTAIN, which came with version 17. */
const GRANTS = `
  SELECT 'grant' AS kind, format('%s %s %s%s', a.role, a.privilege_type, x.name, a.option) AS name, x.of, x.owner::regrole AS owner,
    x.made::bigint + ${AFTER} AS made,
    format('GRANT %s%s ON %s TO %s%s;', a.privilege_type, x.columns, x.target, a.role, a.option) AS create,
    format('REVOKE %s%s ON %s FROM %s;', a.privilege_type, x.columns, x.target, a.role) AS drop
  FROM (
    SELECT quote_ident(n.nspname) AS name, format('SCHEMA %I', n.nspname) AS target, NULL AS columns, 'schema ' || quote_ident(n.nspname) AS of,
      n.nspowner AS owner, n.oid AS made, coalesce(n.nspacl, acldefault('n', n.nspowner)) AS acl FROM pg_namespace n WHERE ${OURS}
    UNION ALL SELECT c.oid::regclass::text, CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END || c.oid::regclass, NULL,
      format('%s %s', CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' ELSE 'table' END, c.oid::regclass),
      c.relowner, c.oid, coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner))
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS} AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
    UNION ALL SELECT format('%s (%I)', c.oid::regclass, a.attname), c.oid::regclass::text, format(' (%I)', a.attname),
      format('%s %s', CASE WHEN c.relkind IN ('v', 'm') THEN 'view' ELSE 'table' END, c.oid::regclass), c.relowner, c.oid, a.attacl
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${OURS}
    UNION ALL SELECT p.oid::regprocedure::text, CASE p.prokind WHEN 'p' THEN 'PROCEDURE ' ELSE 'FUNCTION ' END || p.oid::regprocedure, NULL, 'function ' || p.oid::regprocedure, p.proowner, p.oid,
      coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE ${OURS}
    -- PUBLIC may use every type unless somebody took that away.
    UNION ALL SELECT format_type(t.oid, NULL), 'TYPE ' || format_type(t.oid, NULL), NULL,
      format('%s %s', CASE t.typtype WHEN 'd' THEN 'domain' ELSE 'type' END, format_type(t.oid, NULL)), t.typowner, t.oid, t.typacl
      FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE ${OURS} AND t.typtype IN ('d', 'c', 'e')) x
  CROSS JOIN LATERAL (
    SELECT e.privilege_type, CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE e.grantee::regrole::text END AS role,
      CASE WHEN e.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
    FROM aclexplode(x.acl) e WHERE e.grantee <> x.owner AND e.privilege_type <> 'MAINTAIN') a`;

export const OTHER_QUERIES = [
  SCHEMAS,
  DEFAULT_PRIVILEGES,
  DOMAINS,
  DOMAIN_CONSTRAINTS,
  TYPES,
  SEQUENCES,
  VIEWS,
  FUNCTIONS,
  COMMENTS,
  GRANTS,
] as const;
