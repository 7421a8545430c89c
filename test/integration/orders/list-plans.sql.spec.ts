import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import {
  countStatement,
  ORDER_SORTS,
  type OrderFilter,
  type OrderPage,
  detailsStatement,
  pageStatement,
} from '../../../src/orders/order-page.js';
import type { BoundStatement } from '../../../src/database/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { faultsOf, type Order, type ProblemAnswer } from '../../support/builders.js';
import { generateOrders } from '../../support/generate-orders.js';
import { describePlan, explain, slowNodes } from '../../support/plans.js';
import { contextOf, enter, withClient } from '../../support/sql.js';

const ORDERS = 20_000;
const LIMIT = 51;
/**
 * Rows that a page may read: more than it shows, since PostgreSQL may walk past newer orders in other states, but far from
 * all of them.
 */
const MOST = 1_000;

describe('fault 14: lists of many orders', () => {
  let service: TestApp;
  let client: Client;
  beforeAll(async () => {
    service = await startTestApp();
    await withClient(service.database.superuserUrl, async (superuser) => {
      await generateOrders(superuser, 1, { from: 1, to: ORDERS, withLinesFrom: ORDERS - 500 });
      await generateOrders(superuser, 2, { from: 1, to: 10 });
      await superuser.query('VACUUM ANALYZE waybill.orders');
    });
    client = new Client({ connectionString: service.database.appUrl });
    await client.connect();
    await client.query('BEGIN');
    await enter(client, await contextOf(service, 'viewer'));
  });
  afterAll(async () => {
    await client.end();
    await service.close();
  });

  const middle = { at: '2020-01-08T00:00:00.000000Z', id: '80000000-0000-4000-8000-000000000000' };
  const page = (filter: OrderFilter, more: Partial<OrderPage> = {}): OrderPage => ({
    filter,
    sort: '-placedAt',
    edge: null,
    direction: 'next',
    limit: LIMIT,
    ...more,
  });

  const shapes: [string, OrderPage][] = [
    ...ORDER_SORTS.map((sort): [string, OrderPage] => [`sorted by ${sort}`, page({}, { sort })]),
    ['from the middle on', page({}, { edge: middle })],
    ['backwards from the middle', page({}, { edge: middle, direction: 'prev' })],
    ['backwards from the middle by time changed', page({}, { edge: middle, direction: 'prev', sort: 'updatedAt' })],
    ['of a common state', page({ status: ['delivered'] })],
    ['of a rare state', page({ status: ['confirmed'] })],
    ['of a rare state from the middle on', page({ status: ['confirmed'] }, { edge: middle })],
    ['of two states', page({ status: ['confirmed', 'pending'] })],
    ['of all states', page({ status: ['canceled', 'confirmed', 'delivered', 'pending', 'shipped'] })],
    ['of no order', page({ status: ['lost'] })],
    ['of a common channel', page({ channel: 'web' })],
    ['of a rare channel', page({ channel: 'phone' }, { edge: middle })],
    ['of an unknown channel', page({ channel: 'nowhere' })],
    ['of a customer', page({ customerRef: 'c-7919' })],
    ['of an unknown customer', page({ customerRef: 'nobody' })],
    ['of an external reference', page({ externalRef: 'ref-000010000' })],
    ['placed at a time', page({ placedFrom: '2020-01-07T00:00:00Z', placedBefore: '2020-01-07T01:00:00Z' })],
    ['changed since a time', page({ updatedFrom: '2020-01-15T00:00:00Z' }, { sort: '-updatedAt' })],
    ['whose number begins so', page({ prefix: 'C4CA' })],
    ['whose reference begins so', page({ prefix: 'ref-00001234' })],
    ['whose references begin like all', page({ prefix: 'ref-' })],
    ['whose reference begins like the newest', page({ prefix: 'ref-0000199' })],
    ['that begin like none', page({ prefix: 'zzz' })],
  ];
  it.each(shapes)('a page %s reads a small part of them', async (_what, shape) => {
    const nodes = await explain(client, pageStatement(1, shape));
    expect({ plan: describePlan(nodes), slow: slowNodes(nodes, MOST) }).toEqual({ plan: expect.any(String), slow: [] });
  });

  const DETAILS = 'SELECT * FROM waybill.order_details WHERE tenant_id = $1';
  const prepared = shapes.filter(([, shape]) => detailsStatement(1, shape, DETAILS) !== null);
  it.each(prepared)('a page %s does so with the one plan that all values share, too', async (_what, shape) => {
    await client.query('SET LOCAL plan_cache_mode = force_generic_plan');
    try {
      const { name, text, values } = detailsStatement(1, shape, DETAILS) as BoundStatement;
      await client.query(`PREPARE ${name} AS ${text}`);
      const call = values.map((value) => client.escapeLiteral(String(value))).join(', ');
      const nodes = await explain(client, { text: `EXECUTE ${name} (${call})`, values: [] });
      expect({ plan: describePlan(nodes), slow: slowNodes(nodes, MOST) }).toEqual({
        plan: expect.stringContaining('Index'),
        slow: [],
      });
    } finally {
      await client.query('SET LOCAL plan_cache_mode = auto');
    }
  });

  it('a bad plan would be seen', async () => {
    const nodes = await explain(client, {
      text: 'SELECT id FROM waybill.orders ORDER BY total, id LIMIT 51',
      values: [],
    });
    expect(slowNodes(nodes, MOST)).toEqual(expect.arrayContaining(['Seq Scan on orders']));
    const like = { text: `SELECT id FROM waybill.orders WHERE tenant_id = $1 AND number LIKE 'C4CA%'`, values: [1] };
    expect(slowNodes(await explain(client, like), MOST)).not.toEqual([]);
  });

  it('the page is right, in the order of the sort, whatever its plan', async () => {
    for (const [, shape] of shapes) {
      const { text, values } = pageStatement(1, { ...shape, limit: 200 });
      const found = await client.query<{ id: string }>(text, values);
      await client.query(
        'SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off',
      );
      const scanned = await client.query<{ id: string }>(text, values);
      await client.query(
        'SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_indexonlyscan = on',
      );
      expect(found.rows.map(({ id }) => id)).toEqual(scanned.rows.map(({ id }) => id));
    }
  });

  it('counts agree with what there is', async () => {
    const { text, values } = countStatement(1, page({ status: ['canceled', 'pending'] }));
    const counted = await client.query<{ count: string }>(text, values);
    const there = await client.query<{ count: string }>(
      `SELECT count(*) FROM waybill.orders WHERE status IN ('canceled', 'pending')`,
    );
    expect(counted.rows).toEqual(there.rows);
    expect(Number(counted.rows[0]?.count)).toBeGreaterThan(900);
  });

  it('ten orders of five lines with limit 10 give ten orders of five lines', async () => {
    for (const [who, query] of [
      ['other', '?limit=10'],
      ['demo', '?limit=10'],
      ['demo', '?limit=10&status=pending&channel=web'],
    ]) {
      const reader = who === 'other' ? service.asOther('viewer').undocumented() : service.as('viewer').undocumented();
      const { body } = await reader.get<{ data: Order[]; next: string | null }>(`/v1/orders${query}`);
      expect(body.data).toHaveLength(10);
      expect(body.data.map(({ lines }) => lines.map(({ lineNo }) => lineNo))).toEqual(
        Array.from({ length: 10 }, () => [1, 2, 3, 4, 5]),
      );
      expect(body.next === null).toBe(who === 'other');
    }
  });

  it('a page costs the same number of statements whatever its length', async () => {
    const statements = async (limit: number): Promise<number> => {
      let count = 0;
      const original = Client.prototype.query;
      const counted = function (this: Client, ...given: unknown[]): unknown {
        // Statements that leave together are one query to the driver.
        const { pending = [null] } = given[0] as { pending?: readonly unknown[] };
        count += pending.length;
        return Reflect.apply(original, this, given);
      };
      Object.assign(Client.prototype, { query: counted });
      try {
        expect(
          (await service.as('viewer').undocumented().get<{ data: Order[] }>(`/v1/orders?limit=${limit}`)).body.data,
        ).toHaveLength(limit);
      } finally {
        Object.assign(Client.prototype, { query: original });
      }
      return count;
    };
    await statements(5);
    const few = await statements(2);
    expect(few).toBeGreaterThan(2);
    expect(await statements(200)).toBe(few);
  });

  it('the twentieth page by cursor is where it should be', async () => {
    let cursor = '';
    for (let number = 1; number <= 20; number += 1) {
      const { body } = await service
        .as('viewer')
        .undocumented()
        .get<{ data: Order[]; next: string }>(`/v1/orders?sort=placedAt&limit=200${cursor ? `&cursor=${cursor}` : ''}`);
      expect(body.data[0]?.externalRef).toBe(`ref-${String((number - 1) * 200 + 1).padStart(9, '0')}`);
      cursor = body.next;
    }
  });

  it('refuses an offset, which would make late pages slow', async () => {
    const { body } = await service.as('viewer').undocumented().get<ProblemAnswer>('/v1/orders?offset=19000');
    expect(faultsOf(body)).toEqual(['offset']);
  });
});
