import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { move, place } from '../../support/orders.js';
import {
  authorize,
  deliver,
  held,
  ledgerOf,
  readPayment,
  type Refund,
  simulatedEvent,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { eventually } from '../../support/waiting.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
});
afterAll(() => service.close());

const operator = () => service.as('operator');
const booked = async (orderId: string, operation: string) =>
  (await ledgerOf(service.database.superuserUrl, orderId))
    .filter((entry) => entry.operation === operation)
    .map(({ amount }) => amount);

describe('8. refunds that race', () => {
  it('two of everything: one is made, the other is 409', async () => {
    const payment = await taken(operator());
    const answers = await Promise.all([1, 2].map(() => step<Refund>(operator(), payment.id, 'refunds')));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409]);
    expect(answers.find(({ status }) => status === 409)?.body).toMatchObject({ code: 'refund-exceeds-captured' });
    expect(await booked(payment.orderId, 'refund')).toEqual([TOTAL]);
  });

  it('twenty of a tenth each: ten at most, and refunded never exceeds captured, tax and net included', async () => {
    const payment = await taken(operator());
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => step<Refund>(operator(), payment.id, 'refunds', { amount: 358 })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(10);
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({ status: 'captured', refunded: 3580, refunding: 0 });
    expect(end.refundedTax).toBeLessThanOrEqual(end.capturedTax);
    expect(end.refunded - end.refundedTax).toBeLessThanOrEqual(end.captured - end.capturedTax);
    expect(await booked(payment.orderId, 'refund')).toHaveLength(10);
  });
});

describe('payments that race', () => {
  it('twenty for one order: one is made', async () => {
    const order = await place(operator());
    const answers = await Promise.all(Array.from({ length: 20 }, () => authorize(operator(), order.id)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status !== 201).map(({ status }) => status)).toEqual(
      Array.from({ length: 19 }, () => 409),
    );
    expect(await booked(order.id, 'authorize')).toEqual([TOTAL]);
  });

  it('with the cancelation of their order: it is canceled, or paid, never both', async () => {
    for (let round = 0; round < 10; round += 1) {
      const order = await place(operator());
      const [canceled, paid] = await Promise.all([
        move(operator(), order.id, 'canceled'),
        authorize(operator(), order.id),
      ]);
      expect([canceled.status, paid.status].toSorted()).toEqual([201, 409]);
      expect(await booked(order.id, 'authorize')).toHaveLength(paid.status === 201 ? 1 : 0);
    }
  });

  it('a capture with a void: one of them', async () => {
    for (let round = 0; round < 10; round += 1) {
      const payment = await held(operator());
      const [captured, voided] = await Promise.all([
        step(operator(), payment.id, 'captures'),
        step(operator(), payment.id, 'voids'),
      ]);
      expect([captured.status, voided.status].toSorted()).toEqual([201, 409]);
      const ledger = await ledgerOf(service.database.superuserUrl, payment.orderId);
      expect(ledger).toHaveLength(2);
    }
  });
});

describe('a capture that races the webhook of the same capture', () => {
  it.each(['tok_approve', 'tok_capture_slow', 'tok_capture_error_after'])('is one capture (%s)', async (token) => {
    const payment = await held(operator(), token);
    const key = { 'idempotency-key': randomUUID() };
    const capture = step(operator(), payment.id, 'captures', {}, key);
    // The provider's event can come as soon as the attempt is on record.
    await eventually(async () => (await readPayment(operator(), payment.id)).status !== 'authorized');
    const fact = { subject: 'payment', fact: 'captured', reference: payment.providerRef ?? '', amount: TOTAL } as const;
    const deliveries = Array.from({ length: 5 }, async () =>
      deliver(operator(), await simulatedEvent(service, payment.id, 'authorize', fact)),
    );
    const [answer] = await Promise.all([capture, ...deliveries]);
    expect([201, 503]).toContain(answer.status);

    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({ status: 'captured', captured: TOTAL, capturedTax: 494, version: 4 });
    expect((await booked(payment.orderId, 'capture')).length).toBeLessThanOrEqual(1);
  });
});
