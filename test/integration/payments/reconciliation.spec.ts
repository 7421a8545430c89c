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
  ledgerOf,
  letTimePass,
  type Payment,
  readPayment,
  simulatedEvent,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { contextOf, inTransaction, rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
  await service.app.get(CallRecoverer, { strict: false }).stop();
});
afterAll(() => service.close());

const operator = () => service.as('operator');
async function untold(): Promise<number> {
  const metrics = await (await fetch(`${service.baseUrl}/metrics`)).text();
  return Number(/^waybill_payments_needing_reconciliation_total (\d+)$/m.exec(metrics)?.[1]);
}

/** Longer than the provider remembers keys. */
async function muchLater(): Promise<number> {
  await letTimePass(service.database.superuserUrl, '25 hours');
  return service.app.get(CallRecoverer, { strict: false }).recover();
}

async function unresolved(token: string): Promise<{ orderId: string; paymentId: string; key: string }> {
  const order = await place(operator());
  const key = randomUUID();
  expect((await authorize(operator(), order.id, token, {}, { 'idempotency-key': key })).status).toBe(503);
  const [row] = await rows<{ id: string }>(
    service.database.superuserUrl,
    'SELECT id FROM waybill.payments WHERE order_id = $1',
    [order.id],
  );
  return { orderId: order.id, paymentId: row?.id ?? '', key };
}

describe('a call that was not heard of while the provider remembered its key', () => {
  it('is looked up and not repeated: found, it is settled', async () => {
    const { paymentId, orderId } = await unresolved('tok_error_after');
    expect(await muchLater()).toBe(1);
    expect(await readPayment(operator(), paymentId)).toMatchObject({ status: 'authorized', authorized: TOTAL });
    expect(await ledgerOf(service.database.superuserUrl, orderId)).toHaveLength(1);
  });

  it('is for a person when there is no trace of it: the API and a counter say so', async () => {
    const before = await untold();
    const { paymentId, orderId, key } = await unresolved('tok_error_before');
    expect(await muchLater()).toBe(1);
    expect(await untold()).toBe(before + 1);
    expect(await readPayment(operator(), paymentId)).toMatchObject({ status: 'needs_reconciliation', authorized: 0 });
    expect(await ledgerOf(service.database.superuserUrl, orderId)).toEqual([]);
    const replayed = await authorize(operator(), orderId, 'tok_error_before', {}, { 'idempotency-key': key });
    expect(replayed).toMatchObject({ status: 201, body: { status: 'needs_reconciliation' } });
    // It may hold money, so it is live.
    expect(await authorize(operator(), orderId)).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    expect(await move(operator(), orderId, 'canceled')).toMatchObject({ status: 409 });
  });

  it('shows for captures, voids and refunds as well', async () => {
    const capture = await held(operator(), 'tok_capture_error_before');
    expect((await step(operator(), capture.id, 'captures')).status).toBe(503);
    const voided = await held(operator(), 'tok_void_error_before');
    expect((await step(operator(), voided.id, 'voids')).status).toBe(503);
    const refunded = await taken(operator(), 'tok_refund_error_before');
    expect((await step(operator(), refunded.id, 'refunds', { amount: 100 })).status).toBe(503);
    expect(await muchLater()).toBe(3);
    expect((await readPayment(operator(), capture.id)).status).toBe('needs_reconciliation');
    expect((await readPayment(operator(), voided.id)).status).toBe('needs_reconciliation');
    const payment = await readPayment(operator(), refunded.id);
    // What may have been given back stays promised.
    expect(payment).toMatchObject({
      status: 'captured',
      refunding: 100,
      refunds: [{ status: 'needs_reconciliation' }],
    });
  });
});

describe('the way out', () => {
  it('is an event that comes after all', async () => {
    const { paymentId } = await unresolved('tok_error_before');
    await muchLater();
    const content = { subject: 'payment', fact: 'authorized', reference: 'sim_late', amount: TOTAL } as const;
    await deliver(operator(), await simulatedEvent(service, paymentId, 'authorize', content));
    expect(await readPayment(operator(), paymentId)).toMatchObject({ status: 'authorized', providerRef: 'sim_late' });
  });

  it.each([
    ['succeeded', 'authorized'],
    ['refused', 'declined'],
  ])('is a person who looked and writes down that it %s', async (result, status) => {
    const { paymentId, orderId } = await unresolved('tok_error_before');
    await muchLater();
    // As docs/payments.md says.
    await inTransaction(service.database.ownerUrl, await contextOf(service, 'admin'), (client) =>
      client.query(
        `SELECT waybill.settle_payment_attempt(a.tenant_id, a.id, $2, $4, NULL, $3)
         FROM waybill.payment_attempts a
         WHERE a.tenant_id = 1 AND a.payment_id = $1 AND a.status = 'needs_reconciliation'`,
        [paymentId, result, result === 'refused' ? 'not_found_at_provider' : null, `sim_found_${result}`],
      ),
    );
    expect((await readPayment(operator(), paymentId)).status).toBe(status);
    if (result === 'refused') expectCreated(await authorize(operator(), orderId));
  });
});

describe('a retry that comes first', () => {
  it('settles what the recoverer would have', async () => {
    const { paymentId, orderId, key } = await unresolved('tok_timeout_after');
    await letTimePass(service.database.superuserUrl);
    const answer = await authorize(operator(), orderId, 'tok_timeout_after', {}, { 'idempotency-key': key });
    expect(expectCreated<Payment>(answer).id).toBe(paymentId);
    expect(await ledgerOf(service.database.superuserUrl, orderId)).toHaveLength(1);
  });
});
