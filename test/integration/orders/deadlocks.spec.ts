import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import type { TenantTransaction } from '../../../src/database/index.js';
import { type TransitionChange, TransitionHook, type TransitionHookProvider } from '../../../src/workflow/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { move, place, read } from '../../support/orders.js';

/** Touches the order that this one's metadata names, so that two orders that name each other can deadlock. */
@TransitionHook({ machine: 'order', to: 'confirmed' })
class PartnerHook implements TransitionHookProvider {
  static runs = 0;
  /** Each is settled once that order has been locked for the first time. */
  static readonly locked = new Map<string, Promise<void>>();
  private static readonly lock = new Map<string, () => void>();

  static expect(id: string): void {
    PartnerHook.locked.set(id, new Promise((resolve) => PartnerHook.lock.set(id, resolve)));
  }

  async run(tx: TenantTransaction, { entityId }: TransitionChange): Promise<void> {
    PartnerHook.runs += 1;
    PartnerHook.lock.get(entityId)?.();
    // Both hold their own order before either touches the other's.
    await Promise.all(PartnerHook.locked.values());
    await tx.adHocRows(
      `UPDATE waybill.orders SET metadata = metadata || '{"touched":true}' WHERE tenant_id = $1 AND id =
         (SELECT (metadata ->> 'partner')::uuid FROM waybill.orders WHERE tenant_id = $1 AND id = $2) RETURNING id`,
      [tx.context.tenantId, entityId],
    );
  }
}

@Module({ providers: [PartnerHook] })
class PartnerModule {}

describe('two transactions that wait for each other', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp({ extensions: [PartnerModule] });
  });
  afterAll(() => service.close());

  it('fault 11: are both done in the end: a deadlock is repeated inside and never a 500', async () => {
    const operator = service.as('operator');
    const pairs = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const one = await place(operator);
        const two = await place(operator, { metadata: { partner: one.id } });
        await operator.patch(`/v1/orders/${one.id}`, { metadata: { partner: two.id } }, { 'if-match': '*' });
        return [one.id, two.id];
      }),
    );
    const ids = pairs.flat();
    for (const id of ids) PartnerHook.expect(id);
    const answers = await Promise.all(ids.map((id) => move(operator, id, 'confirmed')));
    expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 201));
    expect(PartnerHook.runs).toBeGreaterThan(ids.length);
    for (const id of ids)
      expect(await read(operator, id)).toMatchObject({ status: 'confirmed', metadata: { touched: true } });
    const histories = await Promise.all(
      ids.map(async (id) => (await operator.get<{ data: unknown[] }>(`/v1/orders/${id}/history`)).body.data.length),
    );
    expect(histories).toEqual(ids.map(() => 2));
  });
});
