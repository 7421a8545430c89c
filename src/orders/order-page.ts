import type { BoundStatement } from '../database/index.js';

/** Which orders, in which order, from where; times are canonical RFC 3339 text. */
export interface OrderPage {
  filter: OrderFilter;
  sort: OrderSort;
  /** The row that the page follows, or, going back, precedes. */
  edge: PageEdge | null;
  direction: 'next' | 'prev';
  /** Rows to fetch. */
  limit: number;
}

export interface OrderFilter {
  status?: readonly string[];
  channel?: string;
  customerRef?: string;
  externalRef?: string;
  placedFrom?: string;
  placedBefore?: string;
  updatedFrom?: string;
  /** Beginning of a number or an external reference. */
  prefix?: string;
}

export interface PageEdge {
  id: string;
  /** Value of the sort column. */
  at: string;
}

export const ORDER_SORTS = ['-placedAt', 'placedAt', '-updatedAt', 'updatedAt'] as const;
export type OrderSort = (typeof ORDER_SORTS)[number];

export interface Statement {
  text: string;
  values: unknown[];
}

/** What a page that names no limit fetches: one row more than it shows. */
export const USUAL_LIMIT = 51;

/**
 * The list as it is without filters, prepared and with the orders' details, its limit in the text: it has one plan whatever the
 * values, and planning it takes as long as running it.
 *
 * @param details selects from `waybill.order_details`, up to `WHERE tenant_id = $1`
 * @returns null for a page with filters or another limit
 */
export function detailsStatement(tenantId: number, page: OrderPage, details: string): BoundStatement | null {
  if (Object.keys(page.filter).length > 0 || page.limit !== USUAL_LIMIT) return null;
  const values = new Values();
  values.add(tenantId);
  const { column, order, orderBy } = sortOf(page);
  const edge = page.edge ? ` AND ${beyond(page.edge, page, values)}` : '';
  return {
    name: `order_page_${column}_${order}${page.edge ? '_from' : ''}`,
    text: `${details}${edge} ORDER BY ${orderBy} LIMIT ${USUAL_LIMIT}`,
    values: values.all,
  };
}

/**
 * Ids and sort values of a page in the order of the sort, or backwards from the edge when it goes back.
 *
 * Several states become a UNION ALL of one ordered index scan each: with `status = ANY` PostgreSQL would sort all of
 * them, or walk past every order that is in another state.
 */
export function pageStatement(tenantId: number, page: OrderPage): Statement {
  const values = new Values();
  const tenant = values.add(tenantId);
  const { column, order, orderBy } = sortOf(page);
  const common = conditions(page.filter, values);
  if (page.edge) common.push(beyond(page.edge, page, values));
  const limit = values.add(page.limit);
  const branch = (status?: string): string => {
    const all = [
      `tenant_id = ${tenant}`,
      ...(status === undefined ? [] : [`status = ${values.add(status)}`]),
      ...common,
    ];
    return `SELECT id, ${column} AS at FROM waybill.orders WHERE ${all.join(' AND ')} ORDER BY ${orderBy} LIMIT ${limit}`;
  };
  const { status = [] } = page.filter;
  if (status.length <= 1) return { text: branch(status[0]), values: values.all };
  const union = status.map((state) => `(${branch(state)})`).join(' UNION ALL ');
  return {
    text: `SELECT id, at FROM (${union}) u ORDER BY at ${order}, id ${order} LIMIT ${limit}`,
    values: values.all,
  };
}

/** Backwards the rows come in the opposite order. */
function sortOf({ sort, direction }: OrderPage): { column: string; order: 'ASC' | 'DESC'; orderBy: string } {
  const column = sort.endsWith('placedAt') ? 'placed_at' : 'updated_at';
  const order = sort.startsWith('-') !== (direction === 'prev') ? 'DESC' : 'ASC';
  return { column, order, orderBy: `${column} ${order}, id ${order}` };
}

/** What comes after the edge in the order of the rows. */
function beyond({ id, at }: PageEdge, page: OrderPage, values: Values): string {
  const { column, order } = sortOf(page);
  const edge = `(${values.add(at)}::timestamptz, ${values.add(id)}::uuid)`;
  return `(${column}, id) ${order === 'DESC' ? '<' : '>'} ${edge}`;
}

/** How many orders the filter matches, all pages together. */
export function countStatement(tenantId: number, page: OrderPage): Statement {
  const values = new Values();
  const all = [`tenant_id = ${values.add(tenantId)}`];
  if (page.filter.status?.length) all.push(`status = ANY (${values.add(page.filter.status)})`);
  all.push(...conditions(page.filter, values));
  return { text: `SELECT count(*) AS count FROM waybill.orders WHERE ${all.join(' AND ')}`, values: values.all };
}

function conditions(filter: OrderFilter, values: Values): string[] {
  const { channel, customerRef, externalRef, placedFrom, placedBefore, updatedFrom, prefix } = filter;
  const found: string[] = [];
  if (channel !== undefined) found.push(`channel = ${values.add(channel)}`);
  if (customerRef !== undefined) found.push(`customer_ref = ${values.add(customerRef)}`);
  if (externalRef !== undefined) found.push(`external_ref = ${values.add(externalRef)}`);
  if (placedFrom !== undefined) found.push(`placed_at >= ${values.add(placedFrom)}`);
  if (placedBefore !== undefined) found.push(`placed_at < ${values.add(placedBefore)}`);
  if (updatedFrom !== undefined) found.push(`updated_at >= ${values.add(updatedFrom)}`);
  if (prefix !== undefined)
    found.push(`(${begins('number', prefix.toUpperCase(), values)} OR ${begins('external_ref', prefix, values)})`);
  return found;
}

/** As a range, since LIKE isn't leakproof: under row level security it could not use the index. */
function begins(column: string, prefix: string, values: Values): string {
  const from = `${column} >= ${values.add(prefix)}`;
  const end = firstBeyond(prefix);
  return end === null ? `(${from})` : `(${from} AND ${column} < ${values.add(end)})`;
}

const LAST_CODE_POINT = 0x10ffff;
const [LAST_BEFORE_SURROGATES, FIRST_BEHIND_SURROGATES] = [0xd7ff, 0xe000];

/**
 * The first text in the C collation, which is the order of code points, that comes after all texts with a prefix: the prefix with its
 * last character replaced by the next one. Null when there is none.
 */
export function firstBeyond(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  while (points.at(-1) === LAST_CODE_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return null;
  points.push(last === LAST_BEFORE_SURROGATES ? FIRST_BEHIND_SURROGATES : last + 1);
  return String.fromCodePoint(...points);
}

class Values {
  readonly all: unknown[] = [];

  /** @returns the parameter's placeholder */
  add(value: unknown): string {
    this.all.push(value);
    return `$${this.all.length}`;
  }
}
