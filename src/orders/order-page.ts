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

export interface PageStatement extends Statement {
  /** Of one that is prepared; others are planned for their values at each run. */
  name?: string;
  orderBy: string;
}

/** What a page that names no limit fetches: one row more than it shows. */
export const USUAL_LIMIT = 51;

/** Greatest code point; in the C collation every text that begins with a prefix is at most the prefix followed by it. */
const LAST_CHARACTER = '\u{10FFFF}';

/**
 * Ids and sort values of a page in the order of the sort, or backwards from the edge when it goes back.
 *
 * Several states become a UNION ALL of one ordered index scan each: with `status = ANY` PostgreSQL would sort all of
 * them, or walk past every order that is in another state.
 *
 * The list as it is without filters is prepared, with its limit in the text: it has one plan whatever the values, so it need
 * not be planned at each request.
 */
export function pageStatement(tenantId: number, page: OrderPage): PageStatement {
  const values = new Values();
  const tenant = values.add(tenantId);
  const column = page.sort.endsWith('placedAt') ? 'placed_at' : 'updated_at';
  const descends = page.sort.startsWith('-') !== (page.direction === 'prev');
  const order = descends ? 'DESC' : 'ASC';
  const orderBy = `${column} ${order}, id ${order}`;
  const common = conditions(page.filter, values);
  if (page.edge) {
    const edge = `(${values.add(page.edge.at)}::timestamptz, ${values.add(page.edge.id)}::uuid)`;
    common.push(`(${column}, id) ${descends ? '<' : '>'} ${edge}`);
  }
  const isPlain = Object.keys(page.filter).length === 0 && page.limit === USUAL_LIMIT;
  const limit = isPlain ? String(page.limit) : values.add(page.limit);
  const branch = (status?: string): string => {
    const all = [
      `tenant_id = ${tenant}`,
      ...(status === undefined ? [] : [`status = ${values.add(status)}`]),
      ...common,
    ];
    return `SELECT id, ${column} AS at FROM waybill.orders WHERE ${all.join(' AND ')} ORDER BY ${orderBy} LIMIT ${limit}`;
  };
  const { status = [] } = page.filter;
  if (status.length <= 1) {
    const name = isPlain ? `order_page_${column}_${order}${page.edge ? '_from' : ''}` : undefined;
    return { name, text: branch(status[0]), values: values.all, orderBy };
  }
  const union = status.map((state) => `(${branch(state)})`).join(' UNION ALL ');
  return {
    text: `SELECT id, at FROM (${union}) u ORDER BY at ${order}, id ${order} LIMIT ${limit}`,
    values: values.all,
    orderBy,
  };
}

/** A page and its orders in one statement; `details` selects from what has all columns of orders, up to `WHERE tenant_id = $1`. */
export function withDetails({ text, orderBy }: PageStatement, details: string): string {
  return `${details} AND id IN (SELECT p.id FROM (${text}) p) ORDER BY ${orderBy}`;
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
  return `(${column} >= ${values.add(prefix)} AND ${column} < ${values.add(prefix + LAST_CHARACTER)})`;
}

class Values {
  readonly all: unknown[] = [];

  /** @returns the parameter's placeholder */
  add(value: unknown): string {
    this.all.push(value);
    return `$${this.all.length}`;
  }
}
