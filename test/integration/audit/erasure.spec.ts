import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Sealing, startSealing } from '../../support/audit.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';

const PERSONAL = /Ada|ada@example|Grace|Main St|Berlin|901820/;

describe('erasing a customer', () => {
  let service: TestApp;
  let sealing: Sealing;
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  const place = async (ref: string): Promise<Order> => {
    const customer = { ref, name: 'Ada Example', email: 'ada@example.test', phone: '+49 30 901820' };
    return (await service.as('operator').post<Order>('/v1/orders', orderBody({ customer }))).body;
  };
  const erase = (ref: string, role = 'admin') =>
    service.as(role).post<{ orders: number; complete: boolean }>(`/v1/customers/${ref}/erasure`, undefined);
  const read = async (path: string) => (await service.as('viewer').get<Order>(path)).body;

  it('takes names and addresses out of every version, and leaves all else as it was', async () => {
    const order = await place('c-gone');
    const patched = await service
      .as('operator')
      .patch<Order>(`/v1/orders/${order.id}`, { customer: { name: 'Grace Example' } }, { 'if-match': '"1"' });
    expect(patched.status).toBe(200);
    const other = await place('c-stays');

    const answer = await erase('c-gone');
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({ customerRef: 'c-gone', orders: 1, complete: true });

    const now = await read(`/v1/orders/${order.id}`);
    expect(now).toMatchObject({
      customer: { ref: 'c-gone', erased: true },
      shippingAddress: null,
      total: order.total,
      version: 3,
    });
    for (const past of ['version=1', 'version=2', 'version=3', `asOf=${encodeURIComponent(order.updatedAt)}`]) {
      const then = await read(`/v1/orders/${order.id}?${past}`);
      expect(then).toMatchObject({ customer: { ref: 'c-gone', erased: true }, lines: order.lines });
      expect(JSON.stringify(then)).not.toMatch(PERSONAL);
    }
    for (const path of ['', '/events', '/versions', '/history'])
      expect(JSON.stringify(await read(`/v1/orders/${order.id}${path}`))).not.toMatch(PERSONAL);
    expect((await read(`/v1/orders/${other.id}`)).customer).toMatchObject({ name: 'Ada Example' });
  });

  it('leaves no value and no salt in any table', async () => {
    const order = await place('c-nothing-left');
    await erase('c-nothing-left');
    const tables = await sealing.sql<{ name: string }>(
      `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
       WHERE table_schema IN ('waybill', 'audit') AND table_type = 'BASE TABLE'`,
    );
    for (const { name } of tables) {
      const found = await sealing.sql<{ text: string }>(
        `SELECT t::text AS text FROM ${name} t WHERE t::text LIKE '%${order.id}%'`,
      );
      for (const { text } of found) expect([name, text]).toEqual([name, expect.not.stringMatching(PERSONAL)]);
    }
    expect(await sealing.sql(`SELECT FROM waybill.order_contacts WHERE order_id = $1`, [order.id])).toEqual([]);
  });

  it('blanks the answers kept under idempotency keys: a retry is told that the answer was erased', async () => {
    const body = orderBody({ customer: { ref: 'c-retry', name: 'Ada Example' } });
    const headers = { 'idempotency-key': 'erased-answer' };
    const operator = service.as('operator');
    expect((await operator.post('/v1/orders', body, headers)).status).toBe(201);
    expect((await operator.post('/v1/orders', body, headers)).text).toMatch(PERSONAL);
    expect((await erase('c-retry')).status).toBe(200);
    expect((await operator.post<ProblemAnswer>('/v1/orders', body, headers)).body).toMatchObject({
      status: 410,
      code: 'answer-erased',
    });
  });

  it.each([
    '...',
    '.a',
    '%2e',
    '%',
    'a/b',
    'a//b',
    'a\\b',
    'a b',
    '?a=b#c',
    '+',
    'Robert"); DROP TABLE x;--',
    'Müller',
    '😀',
    '\u{10fffd}',
    '🍵'.repeat(100),
  ])('finds whoever can be placed, by the same address and by a search: %s', async (ref) => {
    const { id } = await place(ref);
    const found = await read(`/v1/orders?customerRef=${encodeURIComponent(ref)}`);
    expect(found.data).toMatchObject([{ id }]);
    expect(await erase(encodeURIComponent(ref))).toMatchObject({ status: 200, body: { customerRef: ref, orders: 1 } });
  });

  it.each(['%20', 'a%20', '%E2%80%8B', 'Mu%CC%88ller', '%0A'])(
    'knows nobody whose reference no order can have: %s',
    async (path) => {
      expect((await erase(path)).status).toBe(404);
    },
  );

  it('can be retried like any other write', async () => {
    await place('c-twice');
    const headers = { 'idempotency-key': 'erase-twice' };
    const first = await service.as('admin').post('/v1/customers/c-twice/erasure', undefined, headers);
    const again = await service.as('admin').post('/v1/customers/c-twice/erasure', undefined, headers);
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
  });

  it('appends one event to each of the orders, so that versions are events still', async () => {
    const orders = [await place('c-many'), await place('c-many'), await place('c-many')];
    expect((await erase('c-many')).body).toMatchObject({ orders: 3 });
    for (const { id } of orders) {
      const { data } = (await read(`/v1/orders/${id}/versions`)) as unknown as {
        data: { type: string; version: number; changes: object }[];
      };
      expect(data.map(({ type, version }) => [version, type])).toEqual([
        [1, 'order.created'],
        [2, 'customer.erased'],
      ]);
      expect(Object.keys(data[1]?.changes ?? {})).toEqual(['contacts']);
    }
  });

  it('fault 30: everything still verifies, sealed before or after', async () => {
    await place('c-proven');
    await sealing.seal();
    expect((await erase('c-proven')).status).toBe(200);
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact', unsealed: 1 });
    await sealing.seal();
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact', fault: null });
  });

  it('done again changes nothing, and the order lives on', async () => {
    const { id } = await place('c-again');
    await erase('c-again');
    const once = await read(`/v1/orders/${id}`);
    expect((await erase('c-again')).body).toMatchObject({ orders: 0, complete: true });
    expect(await read(`/v1/orders/${id}`)).toEqual(once);
    expect((await service.as('operator').post(`/v1/orders/${id}/transitions`, { to: 'confirmed' })).status).toBe(201);
    const fresh = await service
      .as('operator')
      .patch<Order>(`/v1/orders/${id}`, { customer: { name: 'New Name' } }, { 'if-match': '"3"' });
    expect(fresh.body.customer).toEqual({ ref: 'c-again', name: 'New Name' });
    expect((await read(`/v1/orders/${id}?version=1`)).customer).toEqual({ ref: 'c-again', erased: true });
    await sealing.seal();
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact', fault: null });
  });

  it('goes on where it stopped when there are more orders than one request takes', async () => {
    const orders = [await place('c-batch'), await place('c-batch'), await place('c-batch')];
    const client = await asAdmin();
    const step = async () => (await client.query(`SELECT * FROM waybill.erase_customer(1, 'c-batch', 2)`)).rows[0];
    expect(await step()).toEqual({ known: true, erased: 2, remaining: true });
    expect(await step()).toEqual({ known: true, erased: 1, remaining: false });
    await client.query('COMMIT');
    await client.end();
    for (const { id } of orders) expect((await read(`/v1/orders/${id}`)).version).toBe(2);
  });

  it('is for administrators, for customers that exist, and for the own tenant', async () => {
    await place('c-mine');
    for (const role of ['viewer', 'operator', 'auditor']) expect((await erase('c-mine', role)).status).toBe(403);
    expect((await erase('c-nobody')).body).toMatchObject({ code: 'not-found' });
    const other = await service.asOther('admin').post<ProblemAnswer>('/v1/customers/c-mine/erasure', undefined);
    expect(other.body).toMatchObject({ code: 'not-found' });
    // The database asks for the role as well.
    const client = await asAdmin();
    await client.query(
      `SELECT waybill.set_context(1, (SELECT id FROM waybill.users WHERE subject = 'demo-admin'), '{operator}', 'x')`,
    );
    await expect(client.query(`SELECT waybill.erase_customer(1, 'c-mine', 10)`)).rejects.toMatchObject({
      code: 'WB013',
    });
    await client.end();
  });

  it('is the only way in which a contact goes', async () => {
    await place('c-guarded');
    const client = await asAdmin();
    await client.query('SAVEPOINT s');
    for (const statement of [
      'DELETE FROM waybill.order_contacts',
      'SELECT audit.erase_contacts(1, ARRAY[gen_random_uuid()])',
      `UPDATE waybill.orders SET version = version + 1 WHERE false; DELETE FROM waybill.order_contacts`,
    ]) {
      await expect(client.query(statement)).rejects.toMatchObject({ code: '42501' });
      await client.query('ROLLBACK TO s');
    }
    await client.end();
    // Not even the owner of the table, and not by a setting.
    const owner = new Client({ connectionString: service.database.ownerUrl });
    await owner.connect();
    await owner.query('BEGIN');
    await owner.query(`SELECT waybill.set_context(1, gen_random_uuid(), '{admin,system}', 'x')`);
    await expect(owner.query('DELETE FROM waybill.order_contacts WHERE tenant_id = 1')).rejects.toMatchObject({
      code: 'WB002',
    });
    await owner.end();
  });

  it("cannot be feigned: the owner's update makes an ordinary event", async () => {
    const { id } = await place('c-feigned');
    const owner = new Client({ connectionString: service.database.ownerUrl });
    await owner.connect();
    await owner.query('BEGIN');
    await owner.query(`SELECT waybill.set_context(1, $1, '{admin}', 'x')`, [await adminId()]);
    await owner.query('UPDATE waybill.orders SET version = version + 1 WHERE tenant_id = 1 AND id = $1', [id]);
    await owner.query('COMMIT');
    await owner.end();
    const { data } = (await read(`/v1/orders/${id}/versions`)) as unknown as { data: { type: string }[] };
    expect(data.at(-1)?.type).toBe('order.updated');
  });

  async function adminId(): Promise<string> {
    const [user] = await sealing.sql<{ id: string }>(
      `SELECT id FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-admin'`,
    );
    return user?.id ?? '';
  }

  async function asAdmin(): Promise<Client> {
    const client = new Client({ connectionString: service.database.appUrl });
    await client.connect();
    await client.query('BEGIN');
    await client.query(`SELECT waybill.set_context(1, $1, '{admin}', 'test')`, [await adminId()]);
    return client;
  }
});
