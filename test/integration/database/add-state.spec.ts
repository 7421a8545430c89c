import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { move, placeIn, read } from '../../support/orders.js';
import { inTransaction, refusalOf, rows } from '../../support/sql.js';

const ADD_RETURNED = `SELECT waybill.add_state('order', 'returned', '[
  {"from_state": "delivered", "to_state": "returned", "roles": ["operator"], "requires_reason": true},
  {"from_state": "returned", "to_state": "canceled", "roles": ["admin"]}]')`;

describe('waybill.add_state', () => {
  let database: TestDatabase;
  let service: TestApp;
  beforeAll(async () => {
    database = await createTestDatabase();
    const before = await startTestApp({ database });
    await placeIn(before.as('operator'), 'delivered');
    await placeIn(before.asOther('operator'), 'canceled');
    await before.close();
    // As an extension's migration does, without a tenant: the orders of all tenants are looked at all the same.
    await inTransaction(database.ownerUrl, null, (client) => client.query(ADD_RETURNED));
    service = await startTestApp({ database });
  });
  afterAll(async () => {
    await service.close();
    await database.drop();
  });

  const definition = async () =>
    (
      await rows<{ definition: string; valid: boolean }>(
        database.superuserUrl,
        `SELECT pg_get_constraintdef(oid) AS definition, convalidated AS valid FROM pg_constraint
         WHERE conrelid = 'waybill.orders'::regclass AND conname = 'orders_status_check'`,
      )
    )[0];

  it('rebuilds the CHECK, validated, with all states there were', async () => {
    const check = await definition();
    expect(check?.valid).toBe(true);
    const states = [...(check?.definition ?? '').matchAll(/'([a-z_]+)'/g)].map(([, state]) => state);
    expect(states).toEqual(['canceled', 'confirmed', 'delivered', 'pending', 'returned', 'shipped']);
  });

  it('is served without a change to the service: transitions, reasons, roles, lists and the diagram', async () => {
    const { id } = await placeIn(service.as('operator'), 'delivered');
    expect((await move(service.as('operator'), id, 'returned')).status).toBe(422);
    const returned = await move(service.as('operator'), id, 'returned', { reason: 'broken' });
    expect([returned.status, returned.body.status]).toEqual([201, 'returned']);
    expect((await move(service.as('operator'), id, 'canceled')).status).toBe(403);
    const list = await service.as('viewer').get<{ data: { id: string }[] }>('/v1/orders?status=returned');
    expect(list.body.data.map((order) => order.id)).toEqual([id]);
    const diagram = await service.as('viewer').get('/v1/workflows/order/diagram', { accept: 'text/vnd.mermaid' });
    expect(diagram.text).toContain('delivered --> returned');
    expect((await move(service.as('admin'), id, 'canceled')).status).toBe(201);
    const versions = await service.as('viewer').get<{ data: { type: string }[] }>(`/v1/orders/${id}/versions`);
    expect(versions.body.data.map(({ type }) => type).slice(-2)).toEqual(['order.returned', 'order.canceled']);
  });

  it('allows the least in the new state: its metadata may change, its contacts may not', async () => {
    const { id } = await placeIn(service.as('operator'), 'delivered');
    await move(service.as('operator'), id, 'returned', { reason: 'broken' });
    const patch = (body: unknown) => service.as('operator').patch(`/v1/orders/${id}`, body, { 'if-match': '*' });
    expect((await patch({ metadata: { a: 1 } })).status).toBe(200);
    expect((await patch({ customer: { name: 'X' } })).status).toBe(409);
    expect(await read(service.as('viewer'), id)).toMatchObject({ metadata: { a: 1 }, status: 'returned' });
  });

  it('a state that is quoted or none is refused, and nothing is left behind', async () => {
    const before = [await definition(), await rows(database.superuserUrl, 'SELECT * FROM waybill.valid_transitions')];
    for (const state of [`x'); DROP TABLE waybill.orders; --`, 'Two Words', '']) {
      const transitions = JSON.stringify([{ from_state: 'pending', to_state: state, roles: ['admin'] }]);
      const { code } = await refusalOf(
        inTransaction(database.ownerUrl, null, (client) =>
          client.query(`SELECT waybill.add_state('order', $1, $2)`, [state, transitions]),
        ),
      );
      expect(code).toBe('23514');
    }
    const unknown = await refusalOf(
      inTransaction(database.ownerUrl, null, (client) => client.query(`SELECT waybill.add_state('orders', 'x', '[]')`)),
    );
    expect([unknown.code, unknown.message]).toEqual(['WB003', 'There is no machine orders']);
    expect([await definition(), await rows(database.superuserUrl, 'SELECT * FROM waybill.valid_transitions')]).toEqual(
      before,
    );
  });
});

describe('a machine of an extension', () => {
  it('is attached to its table by one call: history, event, refusals; and taken off again', async () => {
    const database = await createTestDatabase();
    try {
      await inTransaction(database.ownerUrl, null, async (client) => {
        await client.query(`
          CREATE TABLE waybill.tickets (
            tenant_id bigint NOT NULL, id uuid NOT NULL, title text NOT NULL, status text COLLATE "C" NOT NULL,
            version int NOT NULL DEFAULT 1, updated_at timestamptz NOT NULL DEFAULT statement_timestamp(), transition_reason text,
            CONSTRAINT tickets_pkey PRIMARY KEY (tenant_id, id),
            CONSTRAINT tickets_status_check CHECK (status IN ('open', 'closed')));
          CREATE FUNCTION waybill.ticket_snapshot(t waybill.tickets) RETURNS text LANGUAGE plpgsql STABLE
            SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN to_json(t); END';
          INSERT INTO waybill.machines VALUES ('ticket', 'waybill.tickets', 'open');
          INSERT INTO waybill.valid_transitions VALUES ('ticket', 'open', 'closed', '{operator}');
          SELECT waybill.make_tenant_table('waybill.tickets', 'tickets are kept');
          SELECT waybill.attach_machine('ticket', '{tenant_id,id}');
          CREATE FUNCTION waybill.ticket_still_needed(p_tenant bigint, p_id uuid) RETURNS jsonb LANGUAGE sql STABLE
            SET search_path = pg_catalog, pg_temp AS $$
              SELECT jsonb_build_object('code', 'WX001', 'message', 'it is needed', 'detail', jsonb_build_object('id', t.id), 'hint', 'Rename it.')
              FROM waybill.tickets t WHERE t.tenant_id = p_tenant AND t.id = p_id AND t.title = 'x' $$;
          GRANT EXECUTE ON FUNCTION waybill.ticket_still_needed TO waybill_app;
          SELECT waybill.add_step_rule('ticket', 'waybill.ticket_still_needed', '{closed}');
          GRANT INSERT, UPDATE ON waybill.tickets TO waybill_app`);
      });
      const id = '01935c1e-7b3a-7c1d-9f00-000000000001';
      await rows(database.ownerUrl, `SELECT waybill.create_tenant('demo', 'Demo', $1)`, [id]);
      const context = { tenant: 1, actor: id, roles: ['operator'] };
      await inTransaction(database.appUrl, context, async (client) => {
        await client.query(`INSERT INTO waybill.tickets (tenant_id, id, title, status) VALUES (1, $1, 'x', 'open')`, [
          id,
        ]);
      });
      const listed = async () =>
        inTransaction(database.appUrl, context, async (client) => {
          const { rows } = await client.query(`SELECT * FROM waybill.step_refusals(1, 'ticket', $1)`, [id]);
          return rows as unknown;
        });
      const said = { code: 'WX001', message: 'it is needed', detail: { id }, hint: 'Rename it.' };
      expect(await listed()).toEqual([{ to_states: ['closed'], refusal: said }]);
      const needed = await refusalOf(
        inTransaction(database.appUrl, context, (client) =>
          client.query(`UPDATE waybill.tickets SET status = 'closed' WHERE tenant_id = 1`),
        ),
      );
      expect({ ...needed, detail: JSON.parse(needed.detail ?? '') as unknown }).toEqual(said);
      await inTransaction(database.appUrl, context, async (client) => {
        await client.query(`UPDATE waybill.tickets SET title = 'y' WHERE tenant_id = 1`);
        await client.query(
          `UPDATE waybill.tickets SET status = 'closed', transition_reason = 'done' WHERE tenant_id = 1`,
        );
      });
      expect(await listed()).toEqual([]);
      const events = await rows(
        database.superuserUrl,
        `SELECT stream, type, version FROM audit.events WHERE stream LIKE 'ticket/%' ORDER BY version`,
      );
      expect(events).toEqual([
        { stream: `ticket/${id}`, type: 'ticket.created', version: '1' },
        { stream: `ticket/${id}`, type: 'ticket.updated', version: '2' },
        { stream: `ticket/${id}`, type: 'ticket.closed', version: '3' },
      ]);
      const history = await rows(
        database.superuserUrl,
        'SELECT seq, to_status, reason FROM waybill.ticket_status_history ORDER BY seq',
      );
      expect(history).toEqual([
        { seq: 1, to_status: 'open', reason: null },
        { seq: 2, to_status: 'closed', reason: 'done' },
      ]);
      const refusal = await refusalOf(
        inTransaction(database.appUrl, context, (client) =>
          client.query(`UPDATE waybill.tickets SET status = 'open' WHERE tenant_id = 1`),
        ),
      );
      expect([refusal.code, refusal.message]).toEqual(['WB010', `ticket ${id} cannot go from closed to open`]);
      await inTransaction(database.ownerUrl, null, async (client) => {
        await client.query(`SELECT waybill.drop_step_rule('ticket', 'waybill.ticket_still_needed')`);
        await client.query(`SELECT waybill.detach_machine('ticket')`);
      });
      const left = await rows(
        database.superuserUrl,
        `SELECT tgname FROM pg_trigger WHERE tgrelid = 'waybill.tickets'::regclass
         UNION ALL SELECT proname FROM pg_proc WHERE proname IN ('guard_ticket', 'record_ticket', 'ask_ticket_still_needed')
         UNION ALL SELECT relname FROM pg_class WHERE relname = 'ticket_status_history' ORDER BY 1`,
      );
      expect(left).toEqual([{ tgname: 'tickets_00_context' }, { tgname: 'tickets_00_refused' }]);
    } finally {
      await database.drop();
    }
  });
});
