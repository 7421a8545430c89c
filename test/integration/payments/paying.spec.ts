import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';
import { place } from '../../support/orders.js';
import {
  authorize,
  expectCreated,
  forgetKeys,
  held,
  ledgerOf,
  type Payment,
  readPayment,
  type Refund,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
});
afterAll(() => service.close());

const operator = () => service.as('operator');
const booked = (orderId: string) => ledgerOf(service.database.superuserUrl, orderId);

describe('a payment', () => {
  it('holds the total of an order', async () => {
    const order = await place(operator());
    const answer = await authorize(operator(), order.id);
    expect(answer.status).toBe(201);
    expect(answer.body).toMatchObject({
      status: 'authorized',
      amount: TOTAL,
      tax: 494,
      authorized: TOTAL,
      captured: 0,
    });
    expect(answer.headers.get('location')).toBe(`/v1/payments/${answer.body.id}`);
    expect(answer.headers.get('etag')).toBe('"2"');
    expect(await booked(order.id)).toMatchObject([{ operation: 'authorize', amount: TOTAL }]);
  });

  it('is read with its version as ETag, and not again when that is known', async () => {
    const payment = await held(operator());
    const read = await service.as('viewer').get<Payment>(`/v1/payments/${payment.id}`);
    expect(read.body).toEqual(payment);
    const again = await service
      .as('viewer')
      .get(`/v1/payments/${payment.id}`, { 'if-none-match': read.headers.get('etag') ?? '' });
    expect(again.status).toBe(304);
  });

  it('is taken in part, with the tax in that part', async () => {
    const payment = await held(operator());
    const captured = expectCreated(await step(operator(), payment.id, 'captures', { amount: 1791 }));
    expect(captured).toMatchObject({ status: 'captured', captured: 1791, capturedTax: 247 });
    expect(await booked(payment.orderId)).toMatchObject([{ operation: 'authorize' }, { amount: 1791 }]);
  });

  it('is let go', async () => {
    const payment = await held(operator());
    expect(expectCreated(await step(operator(), payment.id, 'voids'))).toMatchObject({ status: 'voided', captured: 0 });
    expect(await booked(payment.orderId)).toMatchObject([{ operation: 'authorize' }, { operation: 'void' }]);
  });

  it('is given back in several parts, tax and net to the last unit', async () => {
    const payment = await taken(operator());
    const first = expectCreated(
      await step<Refund>(operator(), payment.id, 'refunds', { amount: 1000, reason: 'one was broken' }),
    );
    expect(first).toMatchObject({ status: 'succeeded', amount: 1000, tax: 138, reason: 'one was broken' });
    expectCreated(await step<Refund>(operator(), payment.id, 'refunds', { amount: 500, tax: 0 }));
    expectCreated(await step<Refund>(operator(), payment.id, 'refunds'));
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({ status: 'refunded', refunded: TOTAL, refundedTax: 494, refunding: 0 });
    expect(end.refunds.map(({ amount }) => amount)).toEqual([1000, 500, 2082]);
    const refunds = (await booked(payment.orderId)).filter(({ operation }) => operation === 'refund');
    expect(refunds.map(({ amount }) => amount)).toEqual([1000, 500, 2082]);
  });

  it('leaves its answer under its key: the same bytes, and nothing done again', async () => {
    const payment = await taken(operator());
    const key = { 'idempotency-key': randomUUID() };
    const first = await step<Refund>(operator(), payment.id, 'refunds', { amount: 10 }, key);
    const again = await step<Refund>(operator(), payment.id, 'refunds', { amount: 10 }, key);
    expect(again.text).toBe(first.text);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect((await readPayment(operator(), payment.id)).refunds).toHaveLength(1);
  });

  it('is written into history and audit like an order, with the provider in between', async () => {
    const payment = await taken(operator());
    const { superuserUrl } = service.database;
    const history = await rows(
      superuserUrl,
      'SELECT from_status, to_status FROM waybill.payment_status_history WHERE payment_id = $1 ORDER BY seq',
      [payment.id],
    );
    expect(history).toEqual([
      { from_status: null, to_status: 'processing' },
      { from_status: 'processing', to_status: 'authorized' },
      { from_status: 'authorized', to_status: 'capturing' },
      { from_status: 'capturing', to_status: 'captured' },
    ]);
    const events = await rows<{ type: string }>(
      superuserUrl,
      'SELECT type FROM audit.events WHERE stream = $1 ORDER BY version',
      [`payment/${payment.id}`],
    );
    expect(events.map(({ type }) => type)).toEqual([
      'payment.created',
      'payment.authorized',
      'payment.capturing',
      'payment.captured',
    ]);
  });
});

describe('a decline', () => {
  it.each(['insufficient_funds', 'expired_card', 'stolen_card', 'generic_decline'])(
    'is final, says why and is kept: %s',
    async (code) => {
      const order = await place(operator());
      const key = { 'idempotency-key': randomUUID() };
      const answer = await authorize(operator(), order.id, `tok_declined_${code}`, {}, key);
      expect(answer.status).toBe(402);
      expect(answer.body).toMatchObject({ code: 'payment-declined', declineCode: code });
      const again = await authorize(operator(), order.id, `tok_declined_${code}`, {}, key);
      expect(again.text).toBe(answer.text);
      expect(await booked(order.id)).toEqual([]);
      expectCreated(await authorize(operator(), order.id));
    },
  );

  it('of a capture leaves the money held', async () => {
    const payment = await held(operator(), 'tok_capture_declined');
    const answer = await step(operator(), payment.id, 'captures');
    expect(answer.status).toBe(402);
    expect(await readPayment(operator(), payment.id)).toMatchObject({ status: 'authorized', captured: 0 });
  });

  it('of a refund gives the amount free again', async () => {
    const payment = await taken(operator(), 'tok_refund_declined');
    expect((await step(operator(), payment.id, 'refunds')).status).toBe(402);
    const read = await readPayment(operator(), payment.id);
    expect(read).toMatchObject({ status: 'captured', refunding: 0, refunded: 0 });
    expect(read.refunds).toMatchObject([{ status: 'failed', amount: TOTAL }]);
  });
});

describe('what is refused before anybody is asked', () => {
  it.each([
    { name: 'more than the total', body: { amount: TOTAL + 1 } },
    { name: 'nothing', body: { amount: 0 } },
    { name: 'an amount as text', body: { amount: '100' } },
    { name: 'an unknown member', body: { card: '4242' } },
    { name: 'no means of payment', body: { paymentMethod: '' } },
  ])('$name', async ({ body }) => {
    const order = await place(operator());
    const answer = await authorize(operator(), order.id, 'tok_approve', body);
    expect(answer.status).toBe(422);
    expect(answer.body).toMatchObject({ code: 'validation-failed' });
    expect(await booked(order.id)).toEqual([]);
  });

  it('more than is held, more than is left, steps that the state forbids', async () => {
    const payment = await held(operator());
    const tooMuch = await step<ProblemAnswer>(operator(), payment.id, 'captures', { amount: TOTAL + 1 });
    expect(tooMuch).toMatchObject({ status: 422, body: { errors: [{ pointer: '/amount' }] } });
    const early = await step<ProblemAnswer>(operator(), payment.id, 'refunds');
    expect(early).toMatchObject({ status: 409, body: { code: 'illegal-transition', from: 'authorized' } });
    expectCreated(await step(operator(), payment.id, 'captures'));
    const twice = await step<ProblemAnswer>(operator(), payment.id, 'captures');
    expect(twice).toMatchObject({ status: 409, body: { code: 'illegal-transition', from: 'captured' } });
    const taxed = await step<ProblemAnswer>(operator(), payment.id, 'refunds', { amount: 600, tax: 495 });
    expect(taxed).toMatchObject({ status: 409, body: { code: 'refund-exceeds-captured' } });
    const net = await step<ProblemAnswer>(operator(), payment.id, 'refunds', { amount: 3100, tax: 0 });
    expect(net).toMatchObject({ status: 409, body: { code: 'refund-exceeds-captured' } });
  });

  it('a second payment while one is live, under a key that works afterwards', async () => {
    const payment = await held(operator());
    const key = { 'idempotency-key': randomUUID() };
    const second = await authorize(operator(), payment.orderId, 'tok_approve', {}, key);
    expect(second).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    expectCreated(await step(operator(), payment.id, 'voids'));
    expectCreated(await authorize(operator(), payment.orderId, 'tok_approve', {}, key));
  });

  it('a key that was forgotten here and may be remembered by the provider', async () => {
    const order = await place(operator());
    const key = { 'idempotency-key': randomUUID() };
    const payment = expectCreated(await authorize(operator(), order.id, 'tok_approve', {}, key));
    expectCreated(await step(operator(), payment.id, 'voids'));
    await forgetKeys(service.database.superuserUrl);
    const again = await authorize(operator(), order.id, 'tok_approve', {}, key);
    expect(again).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
    expect(await booked(order.id)).toHaveLength(2);
    expectCreated(await authorize(operator(), order.id));
  });

  it('roles that only read, and other tenants', async () => {
    const payment = await held(operator());
    expect((await step(service.as('viewer'), payment.id, 'captures')).status).toBe(403);
    expect((await step(service.asOther('admin'), payment.id, 'captures')).status).toBe(404);
    expect((await authorize(service.asOther('admin'), payment.orderId)).status).toBe(404);
    expect((await service.asOther('viewer').get(`/v1/payments/${payment.id}`)).status).toBe(404);
    expect((await operator().get(`/v1/payments/${randomUUID()}`)).status).toBe(404);
    expect((await step(operator(), randomUUID(), 'voids')).status).toBe(404);
  });
});

describe('the workflow of payments', () => {
  it.each(['payment', 'refund'])('is served with its diagram: %s', async (machine) => {
    const answer = await service.as('viewer').get<{ name: string }>(`/v1/workflows/${machine}`);
    expect(answer.status).toBe(200);
    expect((await service.as('viewer').get(`/v1/workflows/${machine}/diagram`)).status).toBe(200);
  });
});
