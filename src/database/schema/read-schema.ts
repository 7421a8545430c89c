import type { ClientBase } from 'pg';
import { OTHER_QUERIES } from './other-queries.js';
import { OURS } from './query-parts.js';
import { keyOf, KINDS, type SchemaObject, unquoted } from './schema-object.js';
import { TABLE_QUERIES } from './table-queries.js';

/** Tables whose rows say what the schema does, and come with it. Parents first. */
const RULE_TABLES = ['waybill.machines', 'waybill.valid_transitions', 'waybill.step_rules'];
/** Columns of theirs that a trigger keeps. */
const KEPT_BY_TRIGGERS = ['rule_version', 'rules'];
const LAST = 1e12;

/**
 * So that every name comes qualified, names of PostgreSQL's own don't, and times are written one way. Session settings of
 * whoever calls are given back.
 */
const SETTINGS = { search_path: 'pg_catalog', timezone: 'UTC', datestyle: 'ISO, YMD', intervalstyle: 'postgres' };

/**
 * All that Waybill's schemas consist of, as PostgreSQL describes it, sorted by kind and name. Any role can read it. The
 * same schema reads the same on every version that is supported, but for views: compare `fingerprint` where versions may
 * differ.
 */
export async function readSchema(client: ClientBase): Promise<SchemaObject[]> {
  const before = await configure(client, SETTINGS);
  const objects: SchemaObject[] = [];
  for (const query of [...TABLE_QUERIES, ...OTHER_QUERIES]) objects.push(...(await read(client, query)));
  for (const [at, table] of RULE_TABLES.entries()) objects.push(...(await readRules(client, table, LAST + at)));
  await configure(client, before);
  return objects.toSorted(
    (a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (a.name < b.name ? -1 : Number(a.name > b.name)),
  );
}

/** By kind and name. */
export function byKey(objects: readonly SchemaObject[]): Map<string, SchemaObject> {
  return new Map(objects.map((object) => [keyOf(object), object]));
}

/** Returns what the settings were. */
async function configure(client: ClientBase, settings: Record<string, string>): Promise<Record<string, string>> {
  const { rows } = await client.query<{ name: string; before: string }>(
    `SELECT s.name, current_setting(s.name) AS before FROM json_each_text($1) AS s(name, value)`,
    [JSON.stringify(settings)],
  );
  await client.query(`SELECT set_config(s.name, s.value, false) FROM json_each_text($1) AS s(name, value)`, [
    JSON.stringify(settings),
  ]);
  return Object.fromEntries(rows.map(({ name, before }) => [name, before]));
}

async function read(client: ClientBase, query: string): Promise<SchemaObject[]> {
  const { rows } = await client.query<SchemaObject>(query);
  return rows.map((row) => ({ ...row, name: unquoted(row.name), of: unquoted(row.of), made: Number(row.made) }));
}

/** Each row of a table as an object of the schema, named by the values of the primary key. */
async function readRules(client: ClientBase, table: string, made: number): Promise<SchemaObject[]> {
  const { rows } = await client.query<{ column: string; place: number }>(
    `SELECT quote_ident(a.attname) AS column, array_position(i.indkey::int2[], a.attnum) AS place
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND ${OURS}
     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
     WHERE c.oid = to_regclass($1) AND a.attname <> ALL ($2) ORDER BY a.attnum`,
    [table, KEPT_BY_TRIGGERS],
  );
  if (rows.length === 0) return [];
  const columns = rows.map(({ column }) => column);
  const key = rows.filter(({ place }) => place !== null).map(({ column }) => column);
  const literals = (names: string[]): string => names.map((name) => `quote_nullable(${name}::text)`).join(', ');
  return read(
    client,
    `SELECT 'row' AS kind, concat_ws(' ', '${table}', ${key.join(', ')}) AS name, 'table ${table}' AS of, 'waybill_owner' AS owner, ${made} AS made,
       format('INSERT INTO ${table} (${columns.join(', ')}) VALUES (%s);', concat_ws(', ', ${literals(columns)})) AS create,
       format('DELETE FROM ${table} WHERE (${key.join(', ')}) = (%s);', concat_ws(', ', ${literals(key)})) AS drop
     FROM ${table}`,
  );
}
