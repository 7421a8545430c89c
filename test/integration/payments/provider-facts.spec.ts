import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CallRecoverer } from '../../../src/idempotency/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { move, place } from '../../support/orders.js';
import {
  authorize,
  deliver,
  expectCreated,
  held,
  type Payment,
  readPayment,
  signed,
  simulatedEvent,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { contextOf, inTransaction, refusalOf, rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
  await service.app.get(CallRecoverer, { strict: false }).stop();
});
afterAll(() => service.close());

const operator = () => service.as('operator');

/** An event of something that was done at the provider without us: it bears none of our metadata. */
async function tell(fact: Record<string, unknown>, id: string = randomUUID()): Promise<string> {
  const event = {
    id,
    type: `${String(fact.subject)}.${String(fact.fact)}`,
    metadata: null,
    fact: { code: null, ...fact },
  };
  expect((await deliver(operator(), await signed(service, event))).status).toBe(200);
  return id;
}
const captured = (payment: Payment, amount: number) =>
  tell({ subject: 'payment', fact: 'captured', reference: payment.providerRef, amount });
const refunded = (payment: Payment, amount: number | null, more: Record<string, unknown> = {}) =>
  tell({
    subject: 'refund',
    fact: 'succeeded',
    reference: randomUUID(),
    payment: payment.providerRef,
    amount,
    ...more,
  });
const outcomeOf = async (event: string) =>
  (
    await rows<{ outcome: string }>(
      service.database.superuserUrl,
      'SELECT outcome FROM waybill.payment_webhook_events WHERE event = $1',
      [event],
    )
  )[0]?.outcome;
const resolve = async (event: string) =>
  inTransaction(service.database.ownerUrl, await contextOf(service, 'admin'), (client) =>
    client.query(`SELECT waybill.resolve_payment_conflict(1, 'simulated', $1, 'seen at the provider')`, [event]),
  );
async function counted(): Promise<number> {
  const metrics = await (await fetch(`${service.baseUrl}/metrics`)).text();
  return Number(/^waybill_payment_conflicts_total (\d+)$/m.exec(metrics)?.[1]);
}
async function declined(): Promise<Payment> {
  const order = await place(operator());
  expect((await authorize(operator(), order.id, 'tok_declined_lost_card')).status).toBe(402);
  const [row] = await rows<{ id: string }>(
    service.database.superuserUrl,
    'SELECT id FROM waybill.payments WHERE order_id = $1',
    [order.id],
  );
  return readPayment(operator(), row?.id ?? '');
}

describe('what was done at the provider without us', () => {
  it('is booked: a capture, refunds in parts, and then the order can be canceled', async () => {
    const payment = await held(operator());
    await captured(payment, TOTAL);
    await refunded(payment, 1000);
    await refunded(payment, TOTAL - 1000, { cause: 'dispute', code: 'fraudulent' });
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({
      status: 'refunded',
      captured: TOTAL,
      refunded: TOTAL,
      refundedTax: end.capturedTax,
      conflicts: [],
    });
    expect(end.refunds.map(({ status, cause, reason }) => [status, cause, reason])).toEqual([
      ['succeeded', 'provider', null],
      ['succeeded', 'dispute', 'fraudulent'],
    ]);
    expectCreated(await move(operator(), payment.orderId, 'canceled'));
  });

  it('is booked once by its own name, whichever events tell of it, and taken back when it failed', async () => {
    const payment = await taken(operator());
    await refunded(payment, 500, { reference: 're_named' });
    await refunded(payment, 500, { reference: 're_named' });
    expect(await readPayment(operator(), payment.id)).toMatchObject({
      refunded: 500,
      refunds: [{ providerRef: 're_named' }],
    });
    await tell({
      subject: 'refund',
      fact: 'failed',
      reference: 're_named',
      payment: payment.providerRef,
      amount: null,
      code: 'account_closed',
    });
    const failed = await readPayment(operator(), payment.id);
    expect(failed).toMatchObject({ refunded: 0, refunds: [{ status: 'failed', declineCode: 'account_closed' }] });
  });

  it('belongs to the tenant whose payment it is', async () => {
    const payment = await taken(service.asOther('operator'));
    await refunded(payment, 500);
    expect(await readPayment(service.asOther('operator'), payment.id)).toMatchObject({ refunded: 500 });
  });

  it('is kept apart when it is of no payment of ours', async () => {
    const id = await tell({ subject: 'refund', fact: 'succeeded', reference: 're', payment: 'sim_nobody', amount: 1 });
    const stray = await rows(
      service.database.superuserUrl,
      'SELECT type FROM payment_inbox.stray_events WHERE event = $1',
      [id],
    );
    expect(stray).toEqual([{ type: 'refund.succeeded' }]);
  });

  it('makes a declined payment live again that holds money, or has taken it', async () => {
    for (const [fact, status] of [
      ['authorized', 'authorized'],
      ['captured', 'captured'],
    ] as const) {
      const payment = await declined();
      const content = { subject: 'payment', fact, reference: `sim_${randomUUID()}`, amount: TOTAL } as const;
      await deliver(operator(), await simulatedEvent(service, payment.id, 'authorize', content));
      expect(await readPayment(operator(), payment.id)).toMatchObject({ status, authorized: TOTAL, conflicts: [] });
      expect(await move(operator(), payment.orderId, 'canceled')).toMatchObject({ status: 409 });
    }
  });
});

describe('what cannot be so here', () => {
  it('is shown for a person, keeps the order, and is over once somebody says what they saw', async () => {
    const before = await counted();
    const payment = await held(operator());
    const event = await captured(payment, TOTAL + 1);
    expect(await outcomeOf(event)).toBe('conflict');
    expect(await counted()).toBe(before + 1);
    const shown = await readPayment(operator(), payment.id);
    expect(shown).toMatchObject({ status: 'authorized', version: payment.version + 1 });
    expect(shown.conflicts).toMatchObject([
      {
        event,
        subject: 'payment',
        fact: 'captured',
        amount: TOTAL + 1,
        problem: expect.stringContaining('payments_captured_within_authorized'),
      },
    ]);
    expectCreated(await step(operator(), payment.id, 'voids'));
    const kept = await move(operator(), payment.orderId, 'canceled');
    expect(kept).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    expect(kept.text).toContain("says what can't be so here");
    expect(await authorize(operator(), payment.orderId)).toMatchObject({
      status: 409,
      body: { code: 'payment-in-progress' },
    });

    await resolve(event);
    expect((await readPayment(operator(), payment.id)).conflicts).toEqual([]);
    expectCreated(await move(operator(), payment.orderId, 'canceled'));
    expect((await refusalOf(resolve(event))).code).toBe('WB035');
  });

  it.each([
    ['more given back than was taken', async (payment: Payment) => refunded(payment, TOTAL + 1)],
    ['a refund without an amount', async (payment: Payment) => refunded(payment, null)],
    ['another amount taken than here', async (payment: Payment) => captured(payment, TOTAL - 1)],
    ['an amount as text', async (payment: Payment) => refunded(payment, '5' as unknown as number)],
  ])('may be %s', async (_what, happens) => {
    const payment = await taken(operator());
    expect(await outcomeOf(await happens(payment))).toBe('conflict');
    const { conflicts, ...rest } = await readPayment(operator(), payment.id);
    expect(conflicts).toHaveLength(1);
    expect(rest).toMatchObject({ status: 'captured', captured: TOTAL, refunded: 0, refunds: [] });
  });

  it('may be a second payment that holds money: only one is live', async () => {
    const first = await declined();
    expectCreated(await authorize(operator(), first.orderId));
    const content = {
      subject: 'payment',
      fact: 'authorized',
      reference: `sim_${randomUUID()}`,
      amount: TOTAL,
    } as const;
    await deliver(operator(), await simulatedEvent(service, first.id, 'authorize', content));
    expect(await readPayment(operator(), first.id)).toMatchObject({
      status: 'declined',
      conflicts: [{ fact: 'authorized', problem: expect.stringContaining('payments_live_key') }],
    });
  });

  it('may become so by what comes later: a refund before the capture that it is of', async () => {
    const payment = await held(operator());
    const event = await refunded(payment, 500);
    expect(await readPayment(operator(), payment.id)).toMatchObject({ refunded: 0, conflicts: [{ event }] });
    await captured(payment, TOTAL);
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({
      status: 'captured',
      refunded: 500,
      conflicts: [],
      refunds: [{ status: 'succeeded', amount: 500 }],
    });
    const [kept] = await rows(
      service.database.superuserUrl,
      'SELECT resolution FROM waybill.payment_conflicts WHERE event = $1',
      [event],
    );
    expect(kept).toEqual({ resolution: 'it fits what came after it: applied' });
  });

  it('is resolved by nobody through the app role, and changed by nobody', async () => {
    const payment = await taken(operator());
    const event = await refunded(payment, TOTAL + 1);
    const context = await contextOf(service, 'admin');
    for (const [url, statement, code] of [
      [service.database.appUrl, `SELECT waybill.resolve_payment_conflict(1, 'simulated', $1, 'x')`, '42501'],
      [service.database.appUrl, `UPDATE waybill.payment_conflicts SET resolution = 'x' WHERE event = $1`, '42501'],
      [service.database.ownerUrl, `UPDATE waybill.payment_conflicts SET amount = 1 WHERE event = $1`, 'WB002'],
      [service.database.ownerUrl, `DELETE FROM waybill.payment_conflicts WHERE event = $1`, 'WB002'],
    ] as const) {
      const refusal = await refusalOf(inTransaction(url, context, (client) => client.query(statement, [event])));
      expect([statement, refusal.code]).toEqual([statement, code]);
    }
  });

  it('needs reconciliation where the answer to a call of ours says it', async () => {
    const payment = await held(operator(), 'tok_capture_error_before');
    expect((await step(operator(), payment.id, 'captures')).status).toBe(503);
    await inTransaction(service.database.ownerUrl, await contextOf(service, 'admin'), (client) =>
      client.query(
        `SELECT waybill.settle_payment_attempt(1, a.id, 'succeeded', NULL, $2, NULL) FROM waybill.payment_attempts a
         WHERE a.tenant_id = 1 AND a.payment_id = $1 AND a.status = 'processing'`,
        [payment.id, TOTAL + 1],
      ),
    );
    expect(await readPayment(operator(), payment.id)).toMatchObject({ status: 'needs_reconciliation', captured: 0 });
  });
});
