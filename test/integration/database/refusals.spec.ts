import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { v7 as uuid } from 'uuid';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order } from '../../support/builders.js';
import { place, placeIn, read } from '../../support/orders.js';
import {
  contextOf,
  countRows,
  inTransaction,
  refusalOf,
  rows,
  type Refusal,
  type SqlContext,
} from '../../support/sql.js';

const ROLES = { appUrl: 'waybill_app', ownerUrl: 'waybill_owner' } as const;
const BOTH = Object.keys(ROLES) as (keyof typeof ROLES)[];

/** Codes of Waybill's own refusals, and PostgreSQL's for a missing right and a violated CHECK. */
const DENIED = '42501';
const CHECK = '23514';

describe('in SQL', () => {
  let service: TestApp;
  let operator: SqlContext;
  let pending: Order;
  let confirmed: Order;
  beforeAll(async () => {
    service = await startTestApp();
    operator = await contextOf(service, 'operator');
    pending = await place(service.as('operator'));
    confirmed = await placeIn(service.as('operator'), 'confirmed');
  });
  afterAll(() => service.close());

  /** Runs a statement, expects the refusal, and that every order, row and event is as it was. */
  async function refused(
    role: keyof typeof ROLES,
    statement: string,
    context: SqlContext | null = operator,
    values: unknown[] = [],
  ): Promise<Refusal> {
    const before = await countRows(service.database.superuserUrl);
    const text = statement.replaceAll('$pending', `'${pending.id}'`).replaceAll('$confirmed', `'${confirmed.id}'`);
    const refusal = await refusalOf(
      inTransaction(service.database[role], context, (client) => client.query(text, values)),
    );
    expect(await countRows(service.database.superuserUrl)).toEqual(before);
    expect(await read(service.as('viewer'), pending.id)).toEqual(pending);
    expect(await read(service.as('viewer'), confirmed.id)).toEqual(confirmed);
    return refusal;
  }

  const placeOrder = `SELECT * FROM waybill.place_order($1, $2, $3, 'web', null, 'c-1', 'EUR', $4, $5, $6, $7, $8, '{}',
    '{A}', '{A}', '{2}', '{100}', '{0}', '{190000}', '{38}', '{238}', '{customer}', '{"{}"}', $9)`;
  const amounts = (changes: Partial<Record<'subtotal' | 'discount' | 'tax' | 'shipping' | 'total', number>> = {}) => {
    const all = { subtotal: 200, discount: 0, tax: 38, shipping: 10, total: 248, ...changes };
    const number = randomBytes(4).toString('hex').toUpperCase();
    return [1, uuid(), number, all.subtotal, all.discount, all.tax, all.shipping, all.total, [randomBytes(32)]];
  };
  const INSERT = (changes: Record<string, string> = {}) => {
    const columns: Record<string, string> = {
      tenant_id: '1',
      id: `'${uuid()}'`,
      number: `'${randomBytes(4).toString('hex').toUpperCase()}'`,
      channel: `'web'`,
      customer_ref: `'c'`,
      status: `'pending'`,
      currency: `'EUR'`,
      subtotal: '0',
      discount: '0',
      tax: '0',
      shipping: '0',
      total: '0',
      ...changes,
    };
    return `INSERT INTO waybill.orders (${Object.keys(columns).join(', ')}) VALUES (${Object.values(columns).join(', ')})`;
  };

  it('the order of these tests could be placed: only what each of them spoils is wrong', async () => {
    const [, id] = amounts();
    const values = amounts();
    values[1] = id as string;
    await inTransaction(service.database.appUrl, operator, (client) => client.query(placeOrder, values));
    expect(await read(service.as('viewer'), String(id))).toMatchObject({ total: 248, status: 'pending' });
  });

  describe.each(BOTH)('%s', (role) => {
    describe('without context', () => {
      it.each([
        ['an update', 'UPDATE waybill.orders SET metadata = metadata WHERE id = $pending'],
        ['an update of nothing', 'UPDATE waybill.orders SET metadata = metadata WHERE false'],
        ['an insert', INSERT()],
      ])('is refused %s, and told what to call', async (_what, statement) => {
        for (const context of [null, { ...operator, tenant: null }, { ...operator, actor: null }]) {
          const { code, message, hint } = await refused(role, statement, context);
          expect(code).toBe('WB001');
          expect(message).toMatch(/^(UPDATE|INSERT) on waybill\.orders needs a tenant and an actor/);
          expect(hint).toContain('SELECT waybill.set_context(tenant, actor, roles, request_id)');
        }
      });

      it('reads nothing', async () => {
        const counts = await inTransaction(service.database[role], null, (client) =>
          client.query('SELECT (SELECT count(*) FROM waybill.orders) + (SELECT count(*) FROM audit.events) AS count'),
        );
        expect(counts.rows).toEqual([{ count: '0' }]);
      });

      it('is refused a command', async () => {
        const { code } = await refused(role, placeOrder, null, amounts());
        expect(code).toBe('WB001');
      });
    });

    it('is refused an order of another tenant', async () => {
      const others = await place(service.asOther('operator'));
      const update = `UPDATE waybill.orders SET metadata = '{"mine":1}' WHERE id = '${others.id}'`;
      const { rowCount } = await inTransaction(service.database[role], operator, (client) => client.query(update));
      expect(rowCount).toBe(0);
      expect(await read(service.asOther('viewer'), others.id)).toEqual(others);
      expect((await refused(role, INSERT({ tenant_id: '2' }))).code).toBe(DENIED);
      expect((await refused(role, placeOrder, operator, [2, ...amounts().slice(1)])).code).toBe(DENIED);
    });

    it.each(['confirmed', 'shipped', 'delivered', 'canceled', 'bogus'])(
      'is refused an order that begins as %s',
      async (state) => {
        const { code, message, hint } = await refused(role, INSERT({ status: `'${state}'` }));
        expect(code).toBe('WB003');
        expect(message).toMatch(
          new RegExp(`^order [0-9a-f-]{36} cannot begin as ${state}: every order begins as pending$`),
        );
        expect(hint).toContain('valid_transitions');
      },
    );

    it('is refused an order that begins at another version', async () => {
      expect(await refused(role, INSERT({ version: '2' }))).toMatchObject({
        code: 'WB003',
        message: expect.stringContaining('versions begin at 1'),
      });
    });

    it('is refused an order without lines', async () => {
      const { code, hint } = await refused(role, INSERT());
      expect(code).toBe('WB016');
      expect(hint).toContain('waybill.place_order');
    });

    it.each(['bogus', 'Shipped', ''])('is refused the state "%s"', async (state) => {
      const { code, message } = await refused(
        role,
        `UPDATE waybill.orders SET status = '${state}' WHERE tenant_id = 1 AND id = $pending`,
      );
      expect(code).toBe('WB010');
      expect(message).toBe(`order ${pending.id} cannot go from pending to ${state}`);
    });

    it('is refused a state that a rule names but the CHECK does not', async () => {
      await rows(
        service.database.superuserUrl,
        `INSERT INTO waybill.valid_transitions VALUES ('order', 'pending', 'bogus', '{operator}')`,
      );
      try {
        const { code, message } = await refused(
          role,
          `UPDATE waybill.orders SET status = 'bogus' WHERE tenant_id = 1 AND id = $pending`,
        );
        expect([code, message]).toEqual([CHECK, expect.stringContaining('orders_status_check')]);
      } finally {
        await rows(service.database.superuserUrl, `DELETE FROM waybill.valid_transitions WHERE to_state = 'bogus'`);
      }
    });

    it('is refused a transition without the role, and without the reason', async () => {
      const cancel = `UPDATE waybill.orders SET status = 'canceled' WHERE tenant_id = 1 AND id = $pending`;
      const byViewer = await refused(role, cancel, await contextOf(service, 'viewer'));
      expect(byViewer.code).toBe('WB013');
      expect(byViewer.message).toContain('only by one of the roles operator, admin');
      expect((await refused(role, cancel, { ...operator, roles: [] })).code).toBe('WB013');
      const without = await refused(role, cancel);
      expect([without.code, without.hint]).toEqual(['WB014', expect.stringContaining('transition_reason')]);
      for (const blank of ['  ', '\t', '\n', '\u00a0', '\u200b'])
        expect((await refused(role, cancel.replace('SET', `SET transition_reason = '${blank}',`))).code).toBe('WB014');
    });

    it('is refused a transition by a user that there is not', async () => {
      const confirm = `UPDATE waybill.orders SET status = 'confirmed' WHERE tenant_id = 1 AND id = $pending`;
      const { code, message } = await refused(role, confirm, { ...operator, actor: uuid() });
      expect([code, message]).toEqual(['23503', expect.stringContaining('order_status_history_user_fkey')]);
    });

    it('is refused any other change by a user that the tenant does not have', async () => {
      const change = `UPDATE waybill.orders SET metadata = '{"by": "nobody"}' WHERE tenant_id = 1 AND id = $pending`;
      const [foreign] = await rows<{ id: string }>(
        service.database.superuserUrl,
        `SELECT id FROM waybill.users WHERE tenant_id = 2 AND subject = 'demo-operator'`,
      );
      for (const actor of [uuid(), foreign?.id ?? '']) {
        const { code, message, hint } = await refused(role, change, { ...operator, actor });
        expect([code, message]).toEqual(['WB001', `the actor ${actor} is not a user of tenant 1`]);
        expect(hint).toContain('waybill.set_context');
      }
    });

    it.each([
      ['version', '7'],
      ['version', '0'],
      ['version', 'version - 1'],
      ['version', 'version + 2'],
    ])('is refused %s = %s', async (column, value) => {
      const { code, hint } = await refused(
        role,
        `UPDATE waybill.orders SET ${column} = ${value} WHERE tenant_id = 1 AND id = $confirmed`,
      );
      expect([code, hint]).toEqual(['WB003', expect.stringContaining('it counts by itself')]);
    });

    it.each([
      ['id', `'01935c1e-7b3a-7c1d-9f00-000000000001'`],
      ['number', `'AAAA-AAAA'`],
      ['channel', `'shop'`],
      ['external_ref', 'null'],
      ['customer_ref', `'c-43'`],
      ['currency', `'USD'`],
      ['placed_at', `placed_at - interval '1 microsecond'`],
      ['tenant_id', '2'],
    ])('is refused a change of %s', async (column, value) => {
      const { code, message } = await refused(
        role,
        `UPDATE waybill.orders SET ${column} = ${value} WHERE tenant_id = 1 AND id = $pending`,
      );
      expect([code, message]).toEqual(['WB002', expect.stringContaining('never change')]);
    });

    it.each([
      ['that do not add up', 'total = total + 1', CHECK],
      ['that are not the sums of the lines', 'subtotal = subtotal + 1, total = total + 1', 'WB016'],
      ['below zero', 'discount = -1, total = total + 1', CHECK],
      ['beyond 2^53', 'shipping = 9007199254740992, total = total - shipping + 9007199254740992', CHECK],
    ])('is refused amounts %s', async (_what, change, expected) => {
      expect(
        (await refused(role, `UPDATE waybill.orders SET ${change} WHERE tenant_id = 1 AND id = $pending`)).code,
      ).toBe(expected);
    });

    it('is refused any amount of an order that is confirmed', async () => {
      const { code, message } = await refused(
        role,
        `UPDATE waybill.orders SET shipping = 0, total = total - shipping WHERE tenant_id = 1 AND id = $confirmed`,
      );
      expect([code, message]).toEqual(['WB002', expect.stringContaining('fixed once it is no longer pending')]);
    });

    it.each([
      [{ subtotal: 201, total: 249 }, 'WB016'],
      [{ tax: 39, total: 249 }, 'WB016'],
      [{ discount: 1, total: 247 }, 'WB016'],
      [{ total: 249 }, CHECK],
    ])('is refused to place an order whose amounts are not those of its lines: %o', async (changes, expected) => {
      const { code, message } = await refused(role, placeOrder, operator, amounts(changes));
      expect(code).toBe(expected);
      if (code === 'WB016') expect(message).toContain('are not the sums of its lines');
    });

    it.each([
      [
        'a tax that is rounded otherwise',
        placeOrder.replace(`'{38}', '{238}'`, `'{37}', '{237}'`),
        { tax: 37, total: 247 },
      ],
      ['a line that does not add up', placeOrder.replace(`'{238}'`, `'{239}'`), { total: 249 }],
      ['a quantity of nothing', placeOrder.replace(`'{2}'`, `'{0}'`), {}],
    ])('is refused to place an order with %s', async (_what, statement, changes) => {
      expect((await refused(role, statement, operator, amounts(changes))).code).toBe(CHECK);
    });

    it.each(['orders', 'order_lines', 'order_contacts', 'order_status_history', 'users', 'api_keys'])(
      'is refused to delete from and to truncate %s',
      async (table) => {
        const wanted = role === 'appUrl' ? DENIED : 'WB002';
        expect((await refused(role, `TRUNCATE waybill.${table} CASCADE`)).code).toBe(wanted);
        // The lines of a pending order may go, when its amounts go with them.
        const deleted = await refused(role, `DELETE FROM waybill.${table}`);
        expect(role === 'ownerUrl' && table === 'order_lines' ? ['WB015', 'WB016'] : [wanted]).toContain(deleted.code);
        expect(deleted.message).toBeTruthy();
      },
    );

    it.each([
      'DELETE FROM audit.events',
      `UPDATE audit.events SET body = '{}'`,
      `UPDATE audit.events SET type = type WHERE false`,
      'TRUNCATE audit.events',
      `INSERT INTO audit.events SELECT tenant_id, stream, version + 1, event_id, type, actor, occurred_us, body, event_hash, event_hash, format FROM audit.events`,
      'DROP TABLE audit.events',
      'ALTER TABLE audit.events DISABLE TRIGGER ALL',
      'CREATE TABLE audit.mine (a int)',
    ])('is refused: %s', async (statement) => {
      const { code, message } = await refused(role, statement);
      expect(code).toBe(DENIED);
      expect(message).toMatch(/permission denied|must be owner/);
    });

    it.each([
      `UPDATE waybill.order_status_history SET reason = 'other'`,
      `UPDATE waybill.order_status_history SET reason = reason WHERE false`,
      `INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, from_status, to_status, changed_by, changed_at)
       VALUES (1, $pending, 2, 'pending', 'shipped', gen_random_uuid(), now())`,
      `UPDATE waybill.order_contacts SET value = '{}'`,
    ])('is refused: %s', async (statement) => {
      const { code, message } = await refused(role, statement);
      expect(code).toBe(role === 'appUrl' ? DENIED : 'WB002');
      expect(message).toMatch(role === 'appUrl' ? /permission denied/ : /is refused: (history|contacts)/);
    });

    it.each([
      [
        'an update of its lines',
        `UPDATE waybill.order_lines SET sku = 'B' WHERE tenant_id = 1 AND order_id = $confirmed`,
      ],
      ['a line less', 'DELETE FROM waybill.order_lines WHERE tenant_id = 1 AND order_id = $confirmed'],
      [
        'a line more, even when it costs nothing',
        `INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
         VALUES (1, $confirmed, 2, 'GIFT', 'Gift', 1, 0, 0, 0, 0, 0)`,
      ],
    ])('is refused of a confirmed order: %s', async (_what, statement) => {
      const { code, message } = await refused(role, statement);
      expect(code).toBe(role === 'appUrl' ? DENIED : 'WB015');
      expect(message).toMatch(
        role === 'appUrl' ? /permission denied/ : /the lines of order .* are fixed: it is confirmed/,
      );
    });

    it('is refused other lines and contacts by the command when the state forbids them', async () => {
      const shipped = await placeIn(service.as('operator'), 'shipped');
      const call = (fields: string, lines: string) =>
        `SELECT * FROM waybill.patch_order(1, '${shipped.id}', null, null, ${lines}, ${fields})`;
      const noLines = Array.from({ length: 13 }, () => 'null').join(', ');
      const contacts = `'{customer}', '{"{}"}', ARRAY[decode(repeat('00', 32), 'hex')]`;
      const lines = `200, 0, 38, 10, 248, '{A}', '{A}', '{2}', '{100}', '{0}', '{190000}', '{38}', '{238}'`;
      for (const statement of [call(contacts, noLines), call(`'{}', '{}', '{}'`, lines)]) {
        expect((await refused(role, statement)).code).toBe('WB015');
      }
      expect(await read(service.as('viewer'), shipped.id)).toEqual(shipped);
    });
  });

  describe('the app role', () => {
    it.each([
      `INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total) VALUES (1, $pending, 2, 'A', 'A', 1, 0, 0, 0, 0, 0)`,
      `INSERT INTO waybill.order_contacts VALUES (1, $pending, 'customer', 2, decode(repeat('00', 32), 'hex'), '{}')`,
      `INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles) VALUES (1, gen_random_uuid(), 'me', 'human', 'Me', '{admin}')`,
      `UPDATE waybill.users SET roles = '{admin}'`,
      `INSERT INTO waybill.api_keys SELECT tenant_id, gen_random_uuid(), user_id, 'x', hash FROM waybill.api_keys`,
      `UPDATE waybill.api_keys SET revoked_at = null`,
      `INSERT INTO waybill.valid_transitions VALUES ('order', 'pending', 'shipped', '{operator}')`,
      `UPDATE waybill.valid_transitions SET roles = '{viewer}'`,
      `DELETE FROM waybill.valid_transitions`,
      `UPDATE waybill.machines SET initial_state = 'delivered'`,
      `INSERT INTO waybill.tenants (slug, name) VALUES ('mine', 'Mine')`,
      `SELECT waybill.create_tenant('mine', 'Mine', gen_random_uuid())`,
      `SELECT waybill.add_state('order', 'free', '[]')`,
      `SELECT waybill.lock_order(1, $pending, null)`,
      `SELECT waybill.order_snapshot(o) FROM waybill.orders o`,
      `SELECT audit.pii_digest('', '', '')`,
      'GRANT waybill_owner TO waybill_app',
      'GRANT waybill_audit TO waybill_app',
      'SET ROLE waybill_owner',
      'SET ROLE waybill_audit',
      'SET SESSION AUTHORIZATION waybill_owner',
      'SET session_replication_role = replica',
      'ALTER TABLE waybill.orders DISABLE TRIGGER ALL',
      'ALTER TABLE waybill.orders DISABLE ROW LEVEL SECURITY',
      'ALTER TABLE waybill.orders NO FORCE ROW LEVEL SECURITY',
      'ALTER ROLE waybill_app BYPASSRLS',
      'CREATE POLICY mine ON waybill.orders USING (true)',
      'DROP POLICY orders_tenant ON waybill.orders',
      'CREATE TABLE public.mine (a int)',
      'CREATE TABLE waybill.mine (a int)',
      'CREATE SCHEMA mine',
      'CREATE TEMPORARY TABLE orders (a int)',
      `CREATE FUNCTION pg_temp.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT $2'`,
      'CREATE TRIGGER mine AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.require_context()',
      'CREATE TRIGGER mine AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION audit.record_order()',
      'DELETE FROM migrations.applied',
    ])('is refused: %s', async (statement) => {
      const { code, message } = await refused('appUrl', statement);
      expect(message).toMatch(/permission denied|must be (owner|superuser)|must have|may (grant|alter)|can grant/i);
      expect(code).toBe(DENIED);
    });

    it('is bound by its policies: it cannot switch them off for itself', async () => {
      const { code, message } = await refused(
        'appUrl',
        'SET LOCAL row_security = off; SELECT count(*) FROM waybill.orders',
      );
      expect([code, message]).toEqual([DENIED, expect.stringContaining('row-level security')]);
    });

    it('sees nothing of other tenants through any table or view that it may read', async () => {
      await place(service.asOther('operator'));
      const readable = await rows<{ name: string }>(
        service.database.appUrl,
        `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname IN ('waybill', 'audit') AND c.relkind IN ('r', 'v', 'm', 'p') AND has_table_privilege(c.oid, 'SELECT')
           AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')`,
      );
      expect(readable.length).toBeGreaterThan(7);
      for (const { name } of readable) {
        const seen = await inTransaction(service.database.appUrl, operator, (client) =>
          client.query(`SELECT DISTINCT tenant_id FROM ${name}`),
        );
        // A table of rare settings may be empty; what is there must be this tenant's.
        expect([name, seen.rows.filter((row) => row.tenant_id !== '1')]).toEqual([name, []]);
      }
    });
  });

  describe('the owner', () => {
    it('is not misled by temporary objects of the same names', async () => {
      const order = await place(service.as('operator'));
      await inTransaction(service.database.ownerUrl, operator, async (client) => {
        await client.query(
          `CREATE TEMPORARY TABLE valid_transitions (machine text, from_state text, to_state text, roles text[], requires_reason boolean, guards text[])`,
        );
        await client.query(
          `INSERT INTO pg_temp.valid_transitions VALUES ('order', 'pending', 'delivered', '{operator}', false, '{}')`,
        );
        await client.query(`CREATE TEMPORARY TABLE orders AS SELECT * FROM waybill.orders`);
        await client.query(`CREATE TEMPORARY TABLE order_status_history AS SELECT * FROM waybill.order_status_history`);
        await client.query(
          `CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''2'''`,
        );
        await client.query(`SET LOCAL search_path = pg_temp, waybill, pg_catalog`);
        await client.query(`SELECT * FROM waybill.transition_order(1, $1, 'confirmed', null, null, null)`, [order.id]);
      });
      expect(await read(service.as('viewer'), order.id)).toMatchObject({ status: 'confirmed', version: 2 });
      const refusal = await refusalOf(
        inTransaction(service.database.ownerUrl, operator, async (client) => {
          await client.query(
            `CREATE TEMPORARY TABLE valid_transitions AS SELECT 'order' AS machine, 'pending' AS from_state, 'delivered' AS to_state, '{operator}'::text[] AS roles, false AS requires_reason, '{}'::text[] AS guards`,
          );
          await client.query(`SET LOCAL search_path = pg_temp, waybill, pg_catalog`);
          await client.query(`UPDATE waybill.orders SET status = 'delivered' WHERE tenant_id = 1 AND id = $1`, [
            pending.id,
          ]);
        }),
      );
      expect(refusal.code).toBe('WB010');
    });

    it('is refused, even as waybill_audit, to change, delete or truncate an event', async () => {
      for (const statement of [
        `UPDATE audit.events SET body = '{}'`,
        'DELETE FROM audit.events',
        'TRUNCATE audit.events',
      ]) {
        const { code, message } = await refused('ownerUrl', `SET LOCAL ROLE waybill_audit; ${statement}`);
        expect([code, message]).toEqual(['WB002', expect.stringContaining('is refused: it is append-only')]);
      }
    });

    it('does not act as waybill_audit unless it says so', async () => {
      const [membership] = await rows<{ uses: boolean; member: boolean }>(
        service.database.ownerUrl,
        `SELECT pg_has_role('waybill_audit', 'USAGE') AS uses, pg_has_role('waybill_audit', 'MEMBER') AS member`,
      );
      expect(membership).toEqual({ uses: false, member: true });
    });
  });

  describe('the sealer', () => {
    it('reads events of all tenants and writes none, and knows no orders', async () => {
      const tenants = await rows(service.database.sealerUrl, 'SELECT DISTINCT tenant_id FROM audit.events ORDER BY 1');
      expect(tenants).toEqual([{ tenant_id: '1' }, { tenant_id: '2' }]);
      for (const statement of [
        'DELETE FROM audit.events',
        `UPDATE audit.events SET body = ''`,
        'SELECT 1 FROM waybill.orders',
        'SELECT 1 FROM waybill.order_contacts',
      ]) {
        const refusal = await refusalOf(rows(service.database.sealerUrl, statement));
        expect(refusal.code).toBe(DENIED);
      }
    });
  });
});
