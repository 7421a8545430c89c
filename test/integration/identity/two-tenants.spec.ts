import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';
import { actorOf, inTransaction, rows } from '../../support/sql.js';

const ROUNDS = 30;

describe('two tenants that use the same references, keys, ids and numbers at the same time', () => {
  let service: TestApp;
  beforeAll(async () => {
    // Few connections, so that tenants take turns on each.
    service = await startTestApp({ env: { DATABASE_POOL_SIZE: '3', RATE_LIMIT: 'off' } });
  });
  afterAll(() => service.close());

  it('each get and change their own orders, by HTTP', async () => {
    const tenants = [service.as('operator'), service.asOther('operator')];
    const run = async (round: number) => {
      const externalRef = `same-${round}`;
      const key = { 'idempotency-key': `same-key-${round}` };
      const bodies = ['first', 'second'].map((metadata) => orderBody({ externalRef, metadata: { tenant: metadata } }));
      const placed = await Promise.all(tenants.map((client, i) => client.post<Order>('/v1/orders', bodies[i], key)));
      expect(placed.map(({ status }) => status)).toEqual([201, 201]);
      const [mine, theirs] = placed.map(({ body }) => body.id);
      expect(mine).not.toBe(theirs);
      const moves = await Promise.all(
        tenants.flatMap((client) => [
          client.post<Order>(`/v1/orders/${mine}/transitions`, { to: 'confirmed' }),
          client.post<Order>(`/v1/orders/${theirs}/transitions`, { to: 'confirmed' }),
        ]),
      );
      expect(moves.map(({ status }) => status)).toEqual([201, 404, 404, 201]);
      const found = await Promise.all(
        tenants.map((client) => client.get<{ data: Order[] }>(`/v1/orders?externalRef=${externalRef}`)),
      );
      expect(found.map(({ body }) => body.data.map(({ id, metadata }) => [id, metadata.tenant]))).toEqual([
        [[mine, 'first']],
        [[theirs, 'second']],
      ]);
    };
    const rounds = Array.from({ length: ROUNDS }, (_, round) => round);
    for (let i = 0; i < ROUNDS; i += 6) await Promise.all(rounds.slice(i, i + 6).map(run));
    for (const client of tenants) {
      const { body } = await client.get<{ data: Order[]; count: number }>('/v1/orders?limit=200&count=exact');
      expect(body.count).toBe(ROUNDS);
      expect(new Set(body.data.map(({ metadata }) => metadata.tenant)).size).toBe(1);
    }
  });

  it('each keep a record with the same id and number, by SQL, and read their own by HTTP', async () => {
    const actors = [await actorOf(service, 'operator', 1), await actorOf(service, 'operator', 2)];
    const place = (tenant: number, id: string, number: string) =>
      inTransaction(
        service.database.appUrl,
        { tenant, actor: actors[tenant - 1] ?? null, roles: ['operator'] },
        (client) => client.query(PLACE, [tenant, id, number, `sku-of-${tenant}`]),
      );
    const shared = Array.from({ length: 10 }, (_, i) => ({ id: randomUUID(), number: `SAME-${i}00` }));
    await Promise.all(shared.flatMap(({ id, number }) => [place(1, id, number), place(2, id, number)]));

    await Promise.all(
      shared.flatMap(({ id }) =>
        [service.as('operator'), service.asOther('operator')].map(async (client, i) => {
          const { body } = await client.get<Order>(`/v1/orders/${id}`);
          expect(body.lines[0]?.sku).toBe(`sku-of-${i + 1}`);
        }),
      ),
    );
    // One tenant confirms, the other cancels the order of the same id.
    await Promise.all(
      shared.flatMap(({ id }) => [
        service.as('operator').post(`/v1/orders/${id}/transitions`, { to: 'confirmed' }),
        service.asOther('operator').post(`/v1/orders/${id}/transitions`, { to: 'canceled', reason: 'mine' }),
      ]),
    );
    for (const { id } of shared) {
      const mine = await service.as('viewer').get<{ data: { to: string }[] }>(`/v1/orders/${id}/history`);
      const theirs = await service.asOther('viewer').get<{ data: { to: string }[] }>(`/v1/orders/${id}/history`);
      expect(mine.body.data.map(({ to }) => to)).toEqual(['pending', 'confirmed']);
      expect(theirs.body.data.map(({ to }) => to)).toEqual(['pending', 'canceled']);
    }
  });

  it('leave every event and history row with a user of their own tenant', async () => {
    const crossed = await rows(
      service.database.superuserUrl,
      `SELECT tenant_id, actor FROM audit.events e
       WHERE NOT EXISTS (SELECT FROM waybill.users u WHERE u.tenant_id = e.tenant_id AND u.id = e.actor)
       UNION ALL
       SELECT tenant_id, changed_by FROM waybill.order_status_history h
       WHERE NOT EXISTS (SELECT FROM waybill.users u WHERE u.tenant_id = h.tenant_id AND u.id = h.changed_by)`,
    );
    expect(crossed).toEqual([]);
  });

  it('keep answering rightly on a connection that has just had an error', async () => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    const { id } = placed.body;
    await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        if (i % 3 === 0) {
          const illegal = await service.as('operator').post(`/v1/orders/${id}/transitions`, { to: 'delivered' });
          expect(illegal.status).toBe(409);
        } else {
          const { status } = await service.asOther('viewer').get(`/v1/orders/${id}`);
          expect(status).toBe(404);
        }
      }),
    );
  });
});

const PLACE = `SELECT event_hash FROM waybill.place_order($1, $2, $3, 'web', 'same-ref-' || $3, 'c-1', 'EUR', 100, 0, 0, 0, 100, '{}',
  ARRAY[$4], ARRAY['Thing'], ARRAY[1]::bigint[], ARRAY[100]::bigint[], ARRAY[0]::bigint[], ARRAY[0]::bigint[],
  ARRAY[0]::bigint[], ARRAY[100]::bigint[], '{}', '{}', '{}')`;
