import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';
import { actorOf, enter, inTransaction, refusalOf, rows, withClient } from '../../support/sql.js';

/* That every table has row level security at all is shown by test/integration/database/catalogue.spec.ts. */
describe('tables of tenants', () => {
  let service: TestApp;
  let order: Order;
  let twin: Order;
  beforeAll(async () => {
    service = await startTestApp();
    order = (await service.as('operator').post<Order>('/v1/orders', orderBody())).body;
    twin = (await service.asOther('operator').post<Order>('/v1/orders', orderBody())).body;
  });
  afterAll(() => service.close());

  const appUrl = () => service.database.appUrl;

  const readable = async () =>
    rows<{ name: string }>(
      service.database.superuserUrl,
      `SELECT n.nspname || '.' || c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
       WHERE n.nspname IN ('waybill', 'audit') AND c.relkind IN ('r', 'p', 'v')
         AND has_table_privilege('waybill_app', c.oid, 'SELECT')`,
    );

  it('show the app role no row without a context, and only its tenant’s with one', async () => {
    const names = (await readable()).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['waybill.orders', 'audit.events', 'waybill.order_details']));
    await withClient(appUrl(), async (client) => {
      for (const name of names) {
        const { rows: none } = await client.query(`SELECT count(*)::int AS n FROM ${name}`);
        expect([name, none[0]]).toEqual([name, { n: 0 }]);
        await client.query('BEGIN');
        await enter(client, { tenant: 2, actor: null });
        const { rows: own } = await client.query(
          `SELECT count(*)::int AS all, count(*) FILTER (WHERE tenant_id = 2)::int AS own FROM ${name}`,
        );
        expect([name, own[0].all]).toEqual([name, own[0].own]);
        await client.query('COMMIT');
      }
    });
  });

  it.each(['abc', '1 OR 1=1', '1,2', '2; --', '1e0', '99999999999999999999', '{1}'])(
    'are closed under the malformed tenant %s',
    async (tenant) => {
      const refusal = await refusalOf(
        withClient(appUrl(), async (client) => {
          await client.query('BEGIN');
          await client.query(`SELECT set_config('waybill.tenant_id', $1, true)`, [tenant]);
          await client.query('SELECT * FROM waybill.orders');
        }),
      );
      expect(refusal.code).toMatch(/^22(P02|003)$/);
    },
  );

  it.each(['', '0', '-1', '999999', ' '])('show nothing under the tenant "%s" that there is not', async (tenant) => {
    const seen = await withClient(appUrl(), async (client) => {
      await client.query('BEGIN');
      await client.query(`SELECT set_config('waybill.tenant_id', $1, true)`, [tenant]);
      return (await client.query('SELECT * FROM waybill.orders').catch(() => ({ rows: [] }))).rows;
    });
    expect(seen).toEqual([]);
  });

  it('forget the context with its transaction, after COMMIT, ROLLBACK and an error alike', async () => {
    await withClient(appUrl(), async (client) => {
      const count = async () =>
        (await client.query<{ n: number }>('SELECT count(*)::int AS n FROM waybill.orders')).rows[0]?.n;
      const begin = async (tenant: number) => {
        await client.query('BEGIN');
        await enter(client, { tenant, actor: null });
      };
      for (const end of ['COMMIT', 'ROLLBACK']) {
        await begin(1);
        expect(await count()).toBe(1);
        await client.query(end);
        expect([end, await count()]).toEqual([end, 0]);
      }
      await begin(1);
      await client.query('SELECT 1 / 0').catch(() => undefined);
      expect((await refusalOf(count())).code).toBe('25P02');
      await client.query('COMMIT');
      expect(await count()).toBe(0);
      await begin(2);
      const { rows: seen } = await client.query('SELECT id FROM waybill.orders');
      expect(seen).toEqual([{ id: twin.id }]);
      await client.query('COMMIT');
    });
  });

  it('are not confused by prepared statements that were planned for another tenant', async () => {
    await withClient(appUrl(), async (client) => {
      const statement = { name: 'all_orders', text: 'SELECT id FROM waybill.orders' };
      const under = async (tenant: number | null) => {
        await client.query('BEGIN');
        if (tenant !== null) await enter(client, { tenant, actor: null });
        const { rows: seen } = await client.query<{ id: string }>(statement);
        await client.query('COMMIT');
        return seen.map(({ id }) => id);
      };
      // More often than the five plans that PostgreSQL makes before it keeps a generic one.
      for (let i = 0; i < 8; i += 1) {
        expect(await under(1)).toEqual([order.id]);
        expect(await under(2)).toEqual([twin.id]);
        expect(await under(null)).toEqual([]);
      }
    });
  });

  it('take no write without a context, and none for another tenant', async () => {
    const move = (client: Client) =>
      client.query(`UPDATE waybill.orders SET status = 'confirmed' WHERE id = $1`, [order.id]);
    expect((await refusalOf(withClient(appUrl(), move))).code).toBe('WB001');
    const actor = await actorOf(service, 'operator', 2);
    const foreign = { tenant: 2, actor, roles: ['operator'] };
    expect((await inTransaction(appUrl(), foreign, move)).rowCount).toBe(0);
    const steal = `UPDATE waybill.orders SET tenant_id = 1 WHERE id = '${twin.id}'`;
    expect((await refusalOf(inTransaction(appUrl(), foreign, (client) => client.query(steal)))).code).toMatch(
      /^(42501|WB002)$/,
    );
    const plant = `SELECT waybill.create_user(1, gen_random_uuid(), 'planted', 'service', 'Planted', '{admin}')`;
    const admin = { tenant: 2, actor, roles: ['admin'] };
    const refused = await refusalOf(inTransaction(appUrl(), admin, (client) => client.query(plant)));
    // Whoever acts for another tenant isn't one of this tenant's users, so the function refuses before row security does.
    expect(refused.code).toBe('WB013');
  });

  it('give the app role’s command functions no way to another tenant', async () => {
    const actor = await actorOf(service, 'operator', 2);
    const call = (text: string, values: unknown[]) =>
      inTransaction(appUrl(), { tenant: 2, actor, roles: ['operator'] }, (client) => client.query(text, values));
    const moved = await call(`SELECT * FROM waybill.transition_order(1, $1, 'confirmed', NULL, NULL, NULL)`, [
      order.id,
    ]);
    const locked = await call('SELECT * FROM waybill.lock_order_details(1, $1, NULL)', [order.id]);
    expect([moved.rowCount, locked.rowCount]).toEqual([0, 0]);
    const key = await rows<{ id: string }>(
      service.database.superuserUrl,
      'SELECT id FROM waybill.api_keys WHERE tenant_id = 1 AND last_used_at IS NULL LIMIT 1',
    );
    const times = [[key[0]?.id], ['2027-01-01T00:00:00Z']];
    await call('SELECT waybill.record_key_use(2, $1, $2)', times);
    await call('SELECT waybill.record_key_use(1, $1, $2)', times);
    const met = await refusalOf(
      call(`SELECT * FROM waybill.meet_user(1, gen_random_uuid(), 'planted', 'P', '{}')`, []),
    );
    expect(met.code).toBe('42501');
    const [untouched] = await rows<{ used: unknown }>(
      service.database.superuserUrl,
      'SELECT last_used_at AS used FROM waybill.api_keys WHERE id = $1',
      [key[0]?.id],
    );
    expect(untouched?.used).toBeNull();
  });

  it('cannot be opened by the app role itself', async () => {
    for (const text of [
      'ALTER TABLE waybill.orders DISABLE ROW LEVEL SECURITY',
      'ALTER TABLE waybill.users NO FORCE ROW LEVEL SECURITY',
      'DROP POLICY orders_tenant ON waybill.orders',
      'CREATE POLICY mine ON waybill.orders USING (true)',
      'ALTER ROLE waybill_app BYPASSRLS',
      'SET ROLE waybill_owner',
      'SET SESSION AUTHORIZATION waybill_owner',
      `SELECT waybill.create_tenant('mine', 'Mine', gen_random_uuid())`,
    ]) {
      expect([text, (await refusalOf(rows(appUrl(), text))).code]).toEqual([text, '42501']);
    }
    // Switched off, it doesn't show more: PostgreSQL refuses the query instead.
    const off = await refusalOf(rows(appUrl(), 'SET row_security = off; SELECT * FROM waybill.orders'));
    expect(off.code).toBe('42501');
  });
});
