import { createHash } from 'node:crypto';

/** In this order they stand in a text of the schema; what belongs to a table, view or function stands beneath it. */
export const KINDS = [
  'schema',
  'default privileges',
  'domain',
  'type',
  'sequence',
  'table',
  'view',
  'function',
  'settings',
  'row security',
  'constraint',
  'index',
  'policy',
  'trigger',
  'firing',
  'grant',
  'comment',
  'row',
] as const;

export type SchemaKind = (typeof KINDS)[number];

/** One thing that a schema consists of, as PostgreSQL describes it. */
export interface SchemaObject {
  kind: SchemaKind;
  /**
   * Qualified by its schema, functions with the types of their arguments: `waybill.lock_order(bigint,uuid,integer)`,
   * `orders_20_update on waybill.orders`, `waybill_app SELECT waybill.orders`. Unique within its kind.
   */
  name: string;
  /** Kind and name of the table, view, function, … that it belongs to; its own where it stands alone. */
  of: string;
  /** The role that owns it, or what it belongs to. */
  owner: string;
  /** Statements that make it. */
  create: string;
  /** Statements that take it away. */
  drop: string;
  /** Sorts as the objects of one database were made. */
  made: number;
}

/** Kind and name, such as `function waybill.set_context(bigint,uuid,text[],text)`. */
export function keyOf({ kind, name }: Pick<SchemaObject, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

/** SHA-256 of what makes an object, the same whichever version of PostgreSQL describes it. */
export function fingerprint({ kind, create }: SchemaObject): string {
  const text = unquoted(create);
  return createHash('sha256')
    .update(kind === 'view' ? unqualified(text) : text)
    .digest('hex');
}

/** A name that is a keyword is quoted, but which words are differs by version. */
export function unquoted(text: string): string {
  return text.replaceAll(/"([a-z_][a-z0-9_]*)"/g, '$1');
}

/**
 * Up to version 15 PostgreSQL writes the table's alias before each column of a view, later only where a query reads
 * several tables, and it breaks lines elsewhere.
 */
function unqualified(view: string): string {
  return view.replaceAll(/\b[a-z_]\w*\.(?=[a-z_"])/g, '').replaceAll(/\s+/g, ' ');
}
