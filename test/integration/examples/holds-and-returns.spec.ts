import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import extension from '../../../examples/holds-and-returns/index.js';
import { HoldAlerts } from '../../../examples/holds-and-returns/on-hold/hold-alerts.js';
import { AfterCommit } from '../../../src/database/index.js';
import { migrate, migrateDown } from '../../../src/database/migrate.js';
import { makeApiKey } from '../../../src/identity/api-key.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';

interface Return {
  id: string;
  status: string;
  version: number;
}

describe('the example extension', () => {
  let database: TestDatabase;
  let service: TestApp;
  let operator: ApiClient;
  let risk: ApiClient;
  let alerts: jest.SpiedFunction<HoldAlerts['run']>;
  beforeAll(async () => {
    database = await createTestDatabase();
    await migrate(database.ownerUrl, extension.migrations);
    service = await startTestApp({ database, extensions: [extension.module] });
    operator = service.as('operator');
    risk = new ApiClient(service.baseUrl, await keyWithRoles(database, ['viewer', 'risk']));
    alerts = jest.spyOn(service.app.get(HoldAlerts, { strict: false }), 'run');
  });
  afterAll(async () => {
    await service.close();
    await database.drop();
  });
  beforeEach(() => {
    alerts.mockClear();
  });

  const move = <T = Order>(api: ApiClient, path: string, to: string, reason?: string) =>
    api.post<T & ProblemAnswer>(`${path}/transitions`, { to, reason });
  const placed = async (metadata: object, ...states: string[]): Promise<Order> => {
    let { body: order } = await operator.post<Order>('/v1/orders', orderBody({ metadata }));
    for (const state of states) ({ body: order } = await move(operator, `/v1/orders/${order.id}`, state));
    expect(order.status).toBe(states.at(-1) ?? 'pending');
    return order;
  };
  const afterCommits = () => service.app.get(AfterCommit, { strict: false }).settle();
  const count = async (table: string, orderId: string): Promise<number> => {
    const [row] = await query<{ count: number }>(
      database.superuserUrl,
      `SELECT count(*)::int AS count FROM waybill.${table} WHERE order_id = $1`,
      [orderId],
    );
    return row?.count ?? 0;
  };

  describe('the state on_hold', () => {
    it('is one more way on from confirmed, and the diagram shows it', async () => {
      const order = await placed({}, 'confirmed');
      const possible = await operator.get<{ transitions: { to: string }[] }>(`/v1/orders/${order.id}/transitions`);
      expect(possible.body.transitions.map(({ to }) => to).toSorted()).toEqual(['canceled', 'on_hold', 'shipped']);
      const diagram = await operator.get('/v1/workflows/order/diagram', { accept: 'text/vnd.mermaid' });
      expect(diagram.text).toContain('confirmed --> on_hold');
    });

    it('is entered with a note in the same transaction, and an alert after it', async () => {
      const order = await placed({}, 'confirmed');
      const held = await move(operator, `/v1/orders/${order.id}`, 'on_hold', 'odd address');
      expect(held.body).toMatchObject({ status: 'on_hold', version: 3 });
      await afterCommits();
      const metrics = await (await fetch(`${service.baseUrl}/metrics`)).text();
      expect(metrics).toContain('waybill_transitions_total{machine="order",to="on_hold"} 1');
      expect(await count('order_holds', order.id)).toBe(1);
      expect(alerts.mock.calls.map(([change]) => [change.entityId, change.reason])).toEqual([
        [order.id, 'odd address'],
      ]);
    });

    it('is not entered, and nobody is alerted, when the note can’t be kept', async () => {
      const order = await placed({}, 'confirmed');
      await query(database.superuserUrl, 'REVOKE INSERT ON waybill.order_holds FROM waybill_app');
      const refused = await move(operator, `/v1/orders/${order.id}`, 'on_hold', 'odd address');
      await query(database.superuserUrl, 'GRANT INSERT ON waybill.order_holds TO waybill_app');
      await afterCommits();
      expect(refused.status).toBe(500);
      expect((await operator.get<Order>(`/v1/orders/${order.id}`)).body).toMatchObject({
        status: 'confirmed',
        version: 2,
      });
      expect(alerts).not.toHaveBeenCalled();
    });

    it('stands when the alert fails: the answer is given, and the fault goes to the log', async () => {
      const order = await placed({}, 'confirmed');
      alerts.mockRejectedValueOnce(new Error('nobody there'));
      expect((await move(operator, `/v1/orders/${order.id}`, 'on_hold', 'odd')).status).toBe(201);
      await afterCommits();
      expect((await operator.get<Order>(`/v1/orders/${order.id}`)).body.status).toBe('on_hold');
    });

    it('is left only by the risk team, and only with a low score', async () => {
      const order = await placed({ riskScore: 80 }, 'confirmed');
      const path = `/v1/orders/${order.id}`;
      await move(operator, path, 'on_hold', 'high amount');
      expect((await move(operator, path, 'confirmed')).body.code).toBe('role-required');
      const refused = await move(risk, path, 'confirmed');
      expect([refused.status, refused.body.guards]).toEqual([
        409,
        [{ code: 'risk-reviewed', detail: 'The risk score is 80; at most 50 goes on.' }],
      ]);
      await operator.patch(path, { metadata: { riskScore: 20 } }, { 'if-match': '*' });
      expect((await move(risk, path, 'confirmed')).body).toMatchObject({ status: 'confirmed' });
    });

    it('is known to the database: a way that was not added is refused there as well', async () => {
      const order = await placed({}, 'confirmed');
      await move(operator, `/v1/orders/${order.id}`, 'on_hold', 'odd');
      expect((await move(operator, `/v1/orders/${order.id}`, 'shipped')).body).toMatchObject({
        code: 'illegal-transition',
        allowed: ['canceled', 'confirmed'],
      });
    });
  });

  describe('a return', () => {
    const delivered = () => placed({}, 'confirmed', 'shipped', 'delivered');
    const request = (orderId: string, quantity: number, key: string = randomUUID()) =>
      operator.post<Return & ProblemAnswer>(
        `/v1/orders/${orderId}/returns`,
        { lineNo: 1, quantity },
        { 'idempotency-key': key },
      );

    it('lives on a machine of its own, with history and chained audit events', async () => {
      const { id: orderId } = await delivered();
      const { body: made } = await request(orderId, 1);
      await move<Return>(operator, `/v1/returns/${made.id}`, 'approved');
      const { body } = await move<Return>(operator, `/v1/returns/${made.id}`, 'received');
      expect(body).toMatchObject({ status: 'received', version: 3 });
      const events = await query(
        database.superuserUrl,
        `SELECT type, prev_hash = lag(event_hash) OVER (ORDER BY version) AS chained FROM audit.events
         WHERE stream = $1 ORDER BY version`,
        [`return/${made.id}`],
      );
      expect(events).toEqual([
        { type: 'return.created', chained: null },
        { type: 'return.approved', chained: true },
        { type: 'return.received', chained: true },
      ]);
      const history = await query(
        database.superuserUrl,
        'SELECT to_status FROM waybill.return_status_history WHERE return_id = $1 ORDER BY seq',
        [made.id],
      );
      expect(history.map(({ to_status }) => to_status)).toEqual(['requested', 'approved', 'received']);
    });

    it('is made once, however often it is sent', async () => {
      const { id: orderId } = await delivered();
      const key = randomUUID();
      const first = await request(orderId, 1, key);
      const again = await request(orderId, 1, key);
      expect([again.status, again.text]).toEqual([201, first.text]);
      expect(again.headers.get('idempotency-replayed')).toBe('true');
      expect(await count('returns', orderId)).toBe(1);
    });

    it('takes no more than was delivered, when two ask at once too', async () => {
      const { id: orderId } = await delivered();
      const statuses = await Promise.all([request(orderId, 2), request(orderId, 2)]);
      expect(statuses.map(({ status }) => status).toSorted()).toEqual([201, 409]);
      expect(statuses.find(({ status }) => status === 409)?.body.code).toBe('quantity-exceeded');
    });

    it('is refused for an order that was not delivered, and for one that is not there', async () => {
      const { id } = await placed({});
      expect((await request(id, 1)).body).toMatchObject({
        code: 'guard-refused',
        guards: [{ code: 'order-delivered' }],
      });
      expect((await request(randomUUID(), 1)).body.code).toBe('not-found');
    });

    it('is moved only along its machine, with its roles and reasons', async () => {
      const { id: orderId } = await delivered();
      const { body: made } = await request(orderId, 1);
      const path = `/v1/returns/${made.id}`;
      expect((await move(service.as('viewer'), path, 'approved')).body.code).toBe('role-required');
      expect((await move(operator, path, 'rejected')).body.code).toBe('reason-required');
      expect((await move(operator, path, 'received')).body).toMatchObject({
        code: 'illegal-transition',
        allowed: ['approved', 'rejected'],
      });
      expect((await move(operator, path, 'requested')).body.code).toBe('already-in-state');
    });

    it('is seen by its own tenant only', async () => {
      const { id: orderId } = await delivered();
      const { body: made } = await request(orderId, 1);
      expect((await operator.get(`/v1/returns/${made.id}`)).status).toBe(200);
      expect((await service.asOther('operator').get(`/v1/returns/${made.id}`)).status).toBe(404);
    });
  });

  it('takes its migrations back, newest first', async () => {
    const other = await createTestDatabase();
    try {
      await migrate(other.ownerUrl, extension.migrations);
      expect(await migrateDown(other.ownerUrl, extension.migrations)).toBe('Returns1790000000002');
      expect(await migrateDown(other.ownerUrl, extension.migrations)).toBe('OnHold1790000000001');
      expect(await migrate(other.ownerUrl, extension.migrations)).toEqual([
        'OnHold1790000000001',
        'Returns1790000000002',
      ]);
    } finally {
      await other.drop();
    }
  });
});

async function query<Row extends Record<string, unknown>>(url: string, text: string, values: unknown[] = []) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** A service user of the first tenant with these roles, and its key. */
async function keyWithRoles({ superuserUrl }: TestDatabase, roles: string[]): Promise<string> {
  const key = makeApiKey(1);
  const [userId, keyId] = [randomUUID(), randomUUID()];
  const enter = `SELECT waybill.set_context(1, '${userId}', '{system}', 'test')`;
  const client = new Client({ connectionString: superuserUrl });
  await client.connect();
  try {
    await client.query('BEGIN');
    await client.query(enter);
    await client.query(
      `INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles) VALUES (1, $1, 'risk', 'service', 'Risk', $2)`,
      [userId, roles],
    );
    await client.query(
      'INSERT INTO waybill.api_keys (tenant_id, id, user_id, prefix, hash) VALUES (1, $1, $2, $3, $4)',
      [keyId, userId, key.prefix, key.hash],
    );
    await client.query('COMMIT');
    return key.text;
  } finally {
    await client.end();
  }
}
