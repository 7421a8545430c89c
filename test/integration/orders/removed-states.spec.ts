import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order, ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { move, place, placeIn, read } from '../../support/orders.js';
import { contextOf, inTransaction, rows } from '../../support/sql.js';

/** A later version of the workflow: `shipped` is gone, its orders are not. */
const REMOVE_SHIPPED = `
  DELETE FROM waybill.valid_transitions WHERE from_state = 'shipped' OR to_state = 'shipped';
  INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles) VALUES ('order', 'confirmed', 'delivered', '{operator}')`;

/** Starts the service and returns what it warns of: TypeORM's module warns of tests that run two services at once. */
async function startListening(database: TestDatabase): Promise<{ service: TestApp; warnings: string[] }> {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  const service = await startTestApp({ database, env: { LOG_LEVEL: 'warn' } });
  const warnings = warn.mock.calls.map(([message]) => String(message)).filter((message) => /machine/.test(message));
  warn.mockRestore();
  return { service, warnings };
}

describe('fault 16: a state that a later version removed', () => {
  let database: TestDatabase;
  let service: TestApp;
  let order: Order;
  let warnings: string[];
  beforeAll(async () => {
    database = await createTestDatabase();
    const before = await startTestApp({ database });
    // The order of the second tenant shows that the warning doesn't depend on whose orders they are.
    order = await placeIn(before.as('operator'), 'shipped');
    await placeIn(before.asOther('operator'), 'shipped');
    await before.close();
    await rows(database.superuserUrl, REMOVE_SHIPPED);
    ({ service, warnings } = await startListening(database));
  });
  afterAll(async () => {
    await service.close();
    await database.drop();
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  it('is told at the start, once, with what to do', () => {
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("machine 'order' in 'shipped'");
    expect(warnings[0]).toContain('add transitions that lead out of there');
  });

  it('is told also when only another tenant than the first has such orders, and not when there is none', async () => {
    const other = await createTestDatabase();
    const told = async (): Promise<string[]> => {
      const { service: again, warnings: heard } = await startListening(other);
      if (heard.length === 0) await placeIn(again.asOther('operator'), 'confirmed');
      await again.close();
      return heard;
    };
    try {
      expect(await told()).toEqual([]);
      await rows(other.superuserUrl, REMOVE_SHIPPED);
      expect(await told()).toEqual([]);
      await rows(
        other.superuserUrl,
        `SET session_replication_role = replica; UPDATE waybill.orders SET status = 'shipped' WHERE tenant_id = 2`,
      );
      expect(await told()).toHaveLength(1);
    } finally {
      await other.drop();
    }
  });

  it('can be read, now and as it was, and in lists', async () => {
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
    expect(await read(service.as('viewer'), order.id, '?version=3')).toEqual(order);
    const list = await service.as('viewer').get<{ data: Order[] }>('/v1/orders');
    expect(list.body.data).toEqual([order]);
    for (const path of ['history', 'versions', 'events']) {
      expect((await service.as('viewer').get(`/v1/orders/${order.id}/${path}`)).status).toBe(200);
    }
  });

  it('can be asked for by name', async () => {
    const { status, body } = await service.as('viewer').get<{ data: Order[] }>('/v1/orders?status=shipped');
    expect(status).toBe(200);
    expect(body.data).toEqual([order]);
  });

  it('GET transitions says what is wrong', async () => {
    const { status, body } = await service
      .as('operator')
      .get<Record<string, unknown>>(`/v1/orders/${order.id}/transitions`);
    expect(status).toBe(200);
    expect(body).toEqual({
      state: 'shipped',
      final: true,
      warning: 'The workflow no longer has the state shipped. Add transitions that lead out of it.',
      transitions: [],
    });
  });

  it('leads nowhere, and its metadata can still change', async () => {
    const moved = await move(service.as('operator'), order.id, 'delivered');
    expect(moved.status).toBe(409);
    expect(moved.body as unknown as ProblemAnswer).toMatchObject({
      code: 'illegal-transition',
      from: 'shipped',
      allowed: [],
    });
    const patched = await service
      .as('operator')
      .patch<Order>(`/v1/orders/${order.id}`, { metadata: { seen: true } }, { 'if-match': '*' });
    expect(patched.status).toBe(200);
    order = patched.body;
  });

  it('does not keep the others from their way', async () => {
    const { id } = await placeIn(service.as('operator'), 'confirmed');
    expect((await move(service.as('operator'), id, 'delivered')).status).toBe(201);
  });

  it('does not keep an extension from adding another state', async () => {
    await inTransaction(database.ownerUrl, null, (client) =>
      client.query(
        `SELECT waybill.add_state('order', 'returned', '[{"from_state":"delivered","to_state":"returned","roles":["operator"]}]')`,
      ),
    );
    await place(service.as('operator'));
    expect((await read(service.as('viewer'), order.id)).status).toBe('shipped');
  });

  it('the look at the states in use leaves the transaction in its own tenant', async () => {
    const context = await contextOf(service, 'viewer');
    const counts = await inTransaction(database.appUrl, context, async (client) => {
      const before = await client.query('SELECT count(*) FROM waybill.orders');
      const states = await client.query<{ states: string[] }>(`SELECT waybill.states_in_use('order') AS states`);
      const after = await client.query('SELECT count(*) FROM waybill.orders');
      expect(states.rows[0]?.states.toSorted()).toEqual(expect.arrayContaining(['shipped']));
      return [before.rows, after.rows];
    });
    expect(counts[0]).toEqual(counts[1]);
  });
});
