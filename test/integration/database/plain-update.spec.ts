import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order } from '../../support/builders.js';
import { place, placeIn, read } from '../../support/orders.js';
import { contextOf, inTransaction, refusalOf, rows } from '../../support/sql.js';
import { untilLocked } from '../../support/waiting.js';

interface Version {
  version: number;
  type: string;
  by: string;
  at: string;
  reason: string | null;
  requestId: string | null;
  changes: Record<string, unknown>;
}

describe('fault 29: a change in plain SQL', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const versions = async (id: string) =>
    (await service.as('viewer').get<{ data: Version[] }>(`/v1/orders/${id}/versions`)).body.data;
  const history = async (id: string) =>
    (await service.as('viewer').get<{ data: Record<string, unknown>[] }>(`/v1/orders/${id}/history`)).body.data;

  it.each(['appUrl', 'ownerUrl'] as const)('of state has its history and its event, with %s', async (url) => {
    const { id } = await place(service.as('operator'));
    const context = { ...(await contextOf(service, 'admin')), requestId: 'psql-1' };
    await inTransaction(service.database[url], context, (client) =>
      client.query(
        `UPDATE waybill.orders SET status = 'canceled', transition_reason = ' called in ' WHERE tenant_id = 1 AND id = $1`,
        [id],
      ),
    );
    const order = await read(service.as('viewer'), id);
    expect(order).toMatchObject({ status: 'canceled', version: 2 });
    expect((await history(id)).at(-1)).toEqual({
      seq: 2,
      from: 'pending',
      to: 'canceled',
      changedBy: context.actor,
      changedAt: order.updatedAt,
      reason: ' called in ',
      requestId: 'psql-1',
    });
    expect((await versions(id)).at(-1)).toMatchObject({
      version: 2,
      type: 'order.canceled',
      by: context.actor,
      at: order.updatedAt,
      reason: ' called in ',
      requestId: 'psql-1',
      changes: { status: { old: 'pending', new: 'canceled' } },
    });
    const [kept] = await rows(
      service.database.superuserUrl,
      'SELECT transition_reason FROM waybill.orders WHERE id = $1',
      [id],
    );
    expect(kept).toEqual({ transition_reason: null });
  });

  it('of many orders at once has them for each', async () => {
    const placed = await Promise.all(
      Array.from({ length: 12 }, () => place(service.as('operator'), { channel: 'bulk' })),
    );
    await inTransaction(service.database.appUrl, await contextOf(service, 'operator'), (client) =>
      client.query(`UPDATE waybill.orders SET status = 'confirmed' WHERE tenant_id = 1 AND channel = 'bulk'`),
    );
    for (const { id } of placed) {
      expect((await versions(id)).map(({ type }) => type)).toEqual(['order.created', 'order.confirmed']);
      expect(await history(id)).toHaveLength(2);
    }
  });

  it('several times in one transaction has them each time, in order', async () => {
    const { id } = await place(service.as('operator'));
    await inTransaction(service.database.appUrl, await contextOf(service, 'operator'), async (client) => {
      for (const state of ['confirmed', 'shipped', 'delivered']) {
        await client.query('UPDATE waybill.orders SET status = $2 WHERE tenant_id = 1 AND id = $1', [id, state]);
      }
    });
    const all = await versions(id);
    expect(all.map(({ type }) => type)).toEqual([
      'order.created',
      'order.confirmed',
      'order.shipped',
      'order.delivered',
    ]);
    expect(new Set(all.map(({ at }) => at)).size).toBe(4);
    expect(all.map(({ at }) => at)).toEqual(all.map(({ at }) => at).toSorted());
  });

  it('of metadata is a version without a row of history', async () => {
    const { id } = await place(service.as('operator'));
    await inTransaction(service.database.appUrl, await contextOf(service, 'operator'), (client) =>
      client.query(`UPDATE waybill.orders SET metadata = '{"by":"hand"}' WHERE tenant_id = 1 AND id = $1`, [id]),
    );
    expect((await versions(id)).at(-1)).toMatchObject({
      version: 2,
      type: 'order.updated',
      changes: { metadata: { new: { by: 'hand' } } },
    });
    expect(await history(id)).toHaveLength(1);
  });

  it('that changes nothing is no version', async () => {
    const order = await place(service.as('operator'));
    await inTransaction(service.database.appUrl, await contextOf(service, 'operator'), (client) =>
      client.query(
        `UPDATE waybill.orders SET status = status, metadata = metadata, transition_reason = 'x' WHERE tenant_id = 1 AND id = $1`,
        [order.id],
      ),
    );
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
    expect(await versions(order.id)).toHaveLength(1);
  });

  it('cannot choose its own time', async () => {
    const order = await place(service.as('operator'));
    await inTransaction(service.database.appUrl, await contextOf(service, 'operator'), (client) =>
      client.query(
        `UPDATE waybill.orders SET metadata = '{}', updated_at = '1999-01-01' WHERE tenant_id = 1 AND id = $1`,
        [order.id],
      ),
    );
    const now = await read(service.as('viewer'), order.id);
    expect(now.updatedAt > order.updatedAt).toBe(true);
  });

  it("through TypeORM's query builder without an entity has them too", async () => {
    const { id } = await place(service.as('operator'));
    const source = await new DataSource({
      type: 'postgres',
      url: service.database.appUrl,
      installExtensions: false,
    }).initialize();
    try {
      const { tenant, actor, roles } = await contextOf(service, 'operator');
      await source.transaction(async (manager) => {
        await manager.query('SELECT waybill.set_context($1, $2, $3, $4)', [tenant, actor, roles, 'builder']);
        await manager
          .createQueryBuilder()
          .update('waybill.orders')
          .set({ status: 'confirmed' })
          .where('id = :id', { id })
          .execute();
      });
    } finally {
      await source.destroy();
    }
    expect((await versions(id)).map(({ type }) => type)).toEqual(['order.created', 'order.confirmed']);
    expect((await history(id)).at(-1)).toMatchObject({ from: 'pending', to: 'confirmed', requestId: 'builder' });
  });

  it('shows in the API at once as the next version, with its ETag', async () => {
    const { id } = await place(service.as('operator'));
    await inTransaction(service.database.appUrl, await contextOf(service, 'operator'), (client) =>
      client.query(`UPDATE waybill.orders SET status = 'confirmed' WHERE tenant_id = 1 AND id = $1`, [id]),
    );
    const answer = await service.as('viewer').get<Order>(`/v1/orders/${id}`);
    const last = (await versions(id)).at(-1) as Version & { eventHash: string };
    expect([answer.headers.get('etag'), answer.body.eventHash]).toEqual(['"2"', last.eventHash]);
  });

  it('is what a step is judged by that waited for it: none is said to be made when nothing was', async () => {
    const { id } = await placeIn(service.as('operator'), 'confirmed');
    const context = await contextOf(service, 'operator');
    const cancel = `UPDATE waybill.orders SET status = 'canceled', transition_reason = 'x' WHERE tenant_id = 1 AND id = $1`;
    const refusal = await inTransaction(service.database.appUrl, context, async (client) => {
      await client.query(cancel, [id]);
      const step = refusalOf(
        inTransaction(service.database.appUrl, context, (other) =>
          other.query(`SELECT * FROM waybill.transition_order(1, $1, 'confirmed', NULL, NULL, NULL)`, [id]),
        ),
      );
      await untilLocked(service.database.superuserUrl);
      await client.query('COMMIT');
      return step;
    });
    expect([refusal.code, refusal.message]).toEqual(['WB010', `order ${id} cannot go from canceled to confirmed`]);
    expect((await versions(id)).map(({ type }) => type).at(-1)).toBe('order.canceled');
  });
});
