import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Stripe } from 'stripe';
import { CallRecoverer, IDEMPOTENCY_POLICY, type IdempotencyPolicy } from '../../../src/idempotency/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { FakeStripe, type Misbehaviour } from '../../support/fake-stripe.js';
import { move, place } from '../../support/orders.js';
import {
  authorize,
  deliver,
  expectCreated,
  letTimePass,
  type Payment,
  readPayment,
  type Refund,
  step,
  TOTAL,
} from '../../support/payments.js';
import { StripeDashboard, stripeEvent } from '../../support/stripe-dashboard.js';

const API_KEY = 'sk_test_only-for-tests';
const WEBHOOK_SECRET = 'whsec_only-for-tests';

let stripe: FakeStripe;
let dashboard: StripeDashboard;
let service: TestApp;
beforeAll(async () => {
  stripe = await FakeStripe.start();
  dashboard = new StripeDashboard(stripe);
  service = await startTestApp({
    env: {
      PAYMENT_PROVIDER: 'stripe',
      STRIPE_API_KEY: API_KEY,
      STRIPE_API_BASE: stripe.url,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
    },
  });
  service.app.get<IdempotencyPolicy>(IDEMPOTENCY_POLICY, { strict: false }).callSeconds = 2;
  await service.app.get(CallRecoverer, { strict: false }).stop();
});
afterAll(async () => {
  await service.close();
  await stripe.close();
});

const operator = () => service.as('operator');
const recover = async (interval?: string) => {
  await letTimePass(service.database.superuserUrl, interval);
  return service.app.get(CallRecoverer, { strict: false }).recover();
};
const pay = (orderId: string, headers: Record<string, string> = {}) =>
  authorize(operator(), orderId, 'pm_card_visa', {}, headers);
const held = async (): Promise<Payment> => expectCreated(await pay((await place(operator())).id));
const taken = async (): Promise<Payment> => expectCreated(await step(operator(), (await held()).id, 'captures'));
const posts = () => stripe.requests.filter(({ method }) => method === 'POST');

describe('what is sent to Stripe', () => {
  it('holds, takes and gives back, each under a key of its own that is no id of ours', async () => {
    const before = posts().length;
    const payment = await held();
    expect(payment).toMatchObject({
      status: 'authorized',
      provider: 'stripe',
      providerRef: expect.stringMatching(/^pi_/),
    });
    expectCreated(await step(operator(), payment.id, 'captures', { amount: 3000 }));
    const refund = expectCreated(await step<Refund>(operator(), payment.id, 'refunds', { amount: 1000 }));
    expect(refund.providerRef).toMatch(/^re_/);
    const sent = posts().slice(before);
    expect(sent.map(({ path }) => path)).toEqual([
      '/v1/payment_intents',
      `/v1/payment_intents/${payment.providerRef}/capture`,
      '/v1/refunds',
    ]);
    expect(new Set(sent.map(({ key }) => key)).size).toBe(3);
    for (const { key } of sent) expect(key).toMatch(/^[0-9a-f]{64}$/);
    const { parameters, authorization } = sent[0] ?? { parameters: new URLSearchParams(), authorization: '' };
    expect(authorization).toBe(`Bearer ${API_KEY}`);
    expect(Object.fromEntries(parameters)).toMatchObject({
      amount: String(TOTAL),
      currency: 'eur',
      capture_method: 'manual',
      confirm: 'true',
      'metadata[waybill_tenant]': '1',
      'metadata[waybill_order]': payment.orderId,
      'metadata[waybill_key]': sent[0]?.key,
    });
  });

  it('lets go', async () => {
    const payment = await held();
    expect(expectCreated(await step(operator(), payment.id, 'voids')).status).toBe('voided');
    expect(stripe.chargesOf(payment.orderId)).toEqual({ held: 0, taken: 0, intents: 1 });
  });

  it('tells a decline by the reason of the bank', async () => {
    const order = await place(operator());
    const answer = await authorize(operator(), order.id, 'pm_card_declined_lost_card');
    expect(answer).toMatchObject({ status: 402, body: { code: 'payment-declined', declineCode: 'lost_card' } });
  });
});

const MISBEHAVIOURS: readonly Misbehaviour[] = [
  'timeout-before',
  'timeout-after',
  'reset-before',
  'reset-after',
  'conflict',
  'rate-limited',
  'error-before',
  'error-after',
  'error-kept',
  'should-retry',
];

describe('when Stripe misbehaves', () => {
  it.each(MISBEHAVIOURS)('holds once: %s', async (misbehaviour) => {
    const order = await place(operator());
    const key = { 'idempotency-key': randomUUID() };
    const before = posts().length;
    stripe.misbehave(misbehaviour);
    const first = await pay(order.id, key);
    expect(first.status).toBe(503);
    expect(Number(first.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(first.text).not.toContain(API_KEY);
    // Exactly one request: the library's own retries are off, whatever Stripe suggests.
    expect(posts().length - before).toBe(1);

    await letTimePass(service.database.superuserUrl);
    const retried = await pay(order.id, key);
    expect(retried.status).toBe(201);
    expect(
      posts()
        .slice(before)
        .map(({ key }) => key),
    ).toEqual([posts()[before]?.key, posts()[before]?.key]);
    expect(stripe.chargesOf(order.id)).toEqual({ held: TOTAL, taken: 0, intents: 1 });
  });

  it.each(MISBEHAVIOURS)('takes and gives back once, with nobody asking again: %s', async (misbehaviour) => {
    const payment = await held();
    stripe.misbehave(misbehaviour);
    expect((await step(operator(), payment.id, 'captures')).status).toBe(503);
    expect(await recover()).toBe(1);
    expect((await readPayment(operator(), payment.id)).status).toBe('captured');
    stripe.misbehave(misbehaviour);
    expect((await step(operator(), payment.id, 'refunds', { amount: 500 })).status).toBe(503);
    expect(await recover()).toBe(1);
    expect(await readPayment(operator(), payment.id)).toMatchObject({
      status: 'captured',
      captured: TOTAL,
      refunded: 500,
    });
    const refunds = stripe.refunds.filter((refund) => refund.payment_intent === payment.providerRef);
    expect(refunds.map(({ amount }) => amount)).toEqual([500]);
  });

  it('waits no longer than the call may take', async () => {
    const order = await place(operator());
    stripe.misbehave('timeout-after');
    const started = Date.now();
    expect((await pay(order.id)).status).toBe(503);
    expect(Date.now() - started).toBeLessThan(60_000);
    expect(await recover()).toBe(1);
  });
});

describe('after Stripe has forgotten its keys', () => {
  it('a charge is looked up and not sent again', async () => {
    const order = await place(operator());
    stripe.misbehave('timeout-after');
    expect((await pay(order.id)).status).toBe(503);
    stripe.forgetKeys();
    const before = posts().length;
    expect(await recover('24 hours')).toBe(1);
    expect(posts().length).toBe(before);
    expect(stripe.chargesOf(order.id)).toEqual({ held: TOTAL, taken: 0, intents: 1 });
  });

  it('a capture and a refund are looked up, too', async () => {
    const payment = await held();
    stripe.misbehave('reset-after');
    expect((await step(operator(), payment.id, 'captures', { amount: 3000 })).status).toBe(503);
    stripe.forgetKeys();
    expect(await recover('24 hours')).toBe(1);
    expect(await readPayment(operator(), payment.id)).toMatchObject({ status: 'captured', captured: 3000 });
    stripe.misbehave('reset-after');
    expect((await step(operator(), payment.id, 'refunds', { amount: 200 })).status).toBe(503);
    stripe.forgetKeys();
    expect(await recover('24 hours')).toBe(1);
    expect(await readPayment(operator(), payment.id)).toMatchObject({ refunded: 200 });
    expect(stripe.refunds.filter((refund) => refund.payment_intent === payment.providerRef)).toHaveLength(1);
  });

  it('what cannot be found is for a person', async () => {
    const order = await place(operator());
    stripe.misbehave('timeout-before');
    const key = { 'idempotency-key': randomUUID() };
    expect((await pay(order.id, key)).status).toBe(503);
    await letTimePass(service.database.superuserUrl, '24 hours');
    const answer = await pay(order.id, key);
    expect(answer).toMatchObject({ status: 201, body: { status: 'needs_reconciliation', authorized: 0 } });
    expect(stripe.chargesOf(order.id).intents).toBe(0);
  });
});

describe('events of Stripe', () => {
  const send = (event: unknown, secret = WEBHOOK_SECRET, timestamp?: number) => {
    const body = JSON.stringify(event);
    const signature = Stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp });
    // The document says what Stripe sends, and not what it never should.
    return deliver(operator().undocumented(), { body, headers: { 'stripe-signature': signature } }, 'stripe');
  };
  it('settle a charge whose answer was lost', async () => {
    const order = await place(operator());
    stripe.misbehave('timeout-after');
    const key = { 'idempotency-key': randomUUID() };
    expect((await pay(order.id, key)).status).toBe(503);
    const intent = [...stripe.intents.values()].at(-1);
    expect((await send(stripeEvent('payment_intent.amount_capturable_updated', intent))).status).toBe(200);
    const before = posts().length;
    await letTimePass(service.database.superuserUrl);
    const answer = await pay(order.id, key);
    expect(answer).toMatchObject({ status: 201, body: { status: 'authorized', authorized: TOTAL } });
    expect(posts().length).toBe(before);
  });

  it('take a refund back that a bank refused days later', async () => {
    const payment = await taken();
    expectCreated(await step(operator(), payment.id, 'refunds'));
    expect((await readPayment(operator(), payment.id)).status).toBe('refunded');
    const refund = stripe.refunds.at(-1);
    const failed = { ...refund, status: 'failed', failure_reason: 'lost_or_stolen_card' };
    expect((await send(stripeEvent('refund.failed', failed))).status).toBe(200);
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({ status: 'captured', refunded: 0, refundedTax: 0 });
    expect(end.refunds).toMatchObject([{ status: 'failed', declineCode: 'lost_or_stolen_card' }]);
  });

  it('book a capture and a refund that were made in the dashboard, without our metadata, and the order can be canceled', async () => {
    const payment = await held();
    const captured = dashboard.capture(payment.providerRef, 3000);
    Object.assign(captured.data.object as object, { metadata: {} });
    expect((await send(captured)).status).toBe(200);
    expect(await readPayment(operator(), payment.id)).toMatchObject({ status: 'captured', captured: 3000 });
    expect((await move(operator(), payment.orderId, 'canceled')).status).toBe(409);

    expect((await send(dashboard.refund(payment.providerRef, 1000))).status).toBe(200);
    const partly = await readPayment(operator(), payment.id);
    expect(partly).toMatchObject({ status: 'captured', refunded: 1000, conflicts: [] });
    expect(partly.refunds).toMatchObject([
      { status: 'succeeded', amount: 1000, cause: 'provider', reason: 'requested_by_customer' },
    ]);
    const rest = dashboard.refund(payment.providerRef, 2000);
    for (const again of [rest, rest, stripeEvent('refund.updated', rest.data.object)])
      expect((await send(again)).status).toBe(200);
    expect(await readPayment(operator(), payment.id)).toMatchObject({
      status: 'refunded',
      refunded: 3000,
      refundedTax: partly.capturedTax,
    });
    expectCreated(await move(operator(), payment.orderId, 'canceled'));
  });

  it('book what a bank takes back in a dispute, and what it gives back when that is won', async () => {
    const payment = await taken();
    const { withdrawn, reinstated } = dashboard.dispute(payment.providerRef, TOTAL);
    expect((await send(withdrawn)).status).toBe(200);
    const lost = await readPayment(operator(), payment.id);
    expect(lost).toMatchObject({ status: 'refunded', refunded: TOTAL });
    expect(lost.refunds).toMatchObject([
      { status: 'succeeded', cause: 'dispute', reason: 'fraudulent', providerRef: expect.stringMatching(/^dp_/) },
    ]);
    expect((await send(reinstated)).status).toBe(200);
    const won = await readPayment(operator(), payment.id);
    expect(won).toMatchObject({
      status: 'captured',
      refunded: 0,
      refunds: [{ status: 'failed', declineCode: 'dispute_won' }],
    });
  });

  it('show money that is held after a decline', async () => {
    const order = await place(operator());
    expect((await authorize(operator(), order.id, 'pm_card_declined_lost_card')).status).toBe(402);
    const intent = [...stripe.intents.keys()].at(-1) ?? '';
    expect((await send(dashboard.hold(intent))).status).toBe(200);
    const refused = await move(operator(), order.id, 'canceled');
    expect(refused).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    const [, paymentId = ''] = /payments\/([0-9a-f-]+)/.exec(refused.text) ?? [];
    expect(await readPayment(operator(), paymentId)).toMatchObject({
      status: 'authorized',
      authorized: TOTAL,
      providerRef: intent,
    });
    expectCreated(await step(operator(), paymentId, 'voids'));
    expectCreated(await move(operator(), order.id, 'canceled'));
  });

  it('that make no sense are kept, and shown where their payment is known', async () => {
    const payment = await held();
    const intent = stripe.intents.get(payment.providerRef ?? '');
    const odd: [string, unknown][] = [
      ['null', null],
      ['a list', []],
      ['a text', 'evt'],
      ['no data', { id: 'evt_empty', type: 'payment_intent.succeeded' }],
      ['data that is null', { id: 'evt_null', type: 'payment_intent.succeeded', data: { object: null } }],
      ['an id as a number', stripeEvent('payment_intent.succeeded', null, 5 as unknown as string)],
      ['a long id', stripeEvent('customer.created', {}, `evt_${'x'.repeat(300)}`)],
      ['a text that PostgreSQL cannot hold', stripeEvent('customer.created', {}, 'evt_\0')],
      ['an amount as text', stripeEvent('payment_intent.succeeded', { ...intent, amount_received: '3582' })],
      [
        'an amount that is no whole number',
        stripeEvent('payment_intent.succeeded', { ...intent, amount_received: 1.5 }),
      ],
      [
        'an amount that is null',
        stripeEvent('refund.created', {
          id: 're_null',
          status: 'succeeded',
          amount: null,
          payment_intent: intent?.id,
          metadata: null,
        }),
      ],
      [
        'more captured than authorized',
        stripeEvent('payment_intent.succeeded', { ...intent, amount_received: TOTAL + 1 }),
      ],
      [
        'a refund of what was not captured',
        stripeEvent('refund.created', {
          id: 're_early',
          status: 'succeeded',
          amount: 5,
          currency: 'eur',
          payment_intent: { id: intent?.id },
        }),
      ],
      [
        'a refund in a state that is new',
        stripeEvent('refund.updated', {
          id: 're_new',
          status: 'frozen',
          amount: 5,
          currency: 'eur',
          payment_intent: intent?.id,
        }),
      ],
    ];
    for (const [what, event] of odd)
      for (const time of [1, 2]) expect([what, time, (await send(event)).status]).toEqual([what, time, 200]);
    const { status, conflicts } = await readPayment(operator(), payment.id);
    expect(status).toBe('authorized');
    expect(conflicts.map(({ fact, amount }) => [fact, amount])).toEqual([
      [null, null],
      [null, null],
      ['succeeded', null],
      ['captured', TOTAL + 1],
      ['succeeded', 5],
      [null, null],
    ]);
    expect((await move(operator(), payment.orderId, 'canceled')).text).toContain("says what can't be so here");
  });

  it('are refused with a wrong secret, an old signature, or none', async () => {
    const forged = stripeEvent('payment_intent.succeeded', [...stripe.intents.values()].at(-1));
    expect((await send(forged, 'whsec_wrong')).status).toBe(400);
    expect((await send(forged, WEBHOOK_SECRET, Math.floor(Date.now() / 1000) - 600)).status).toBe(400);
    expect((await deliver(operator(), { body: JSON.stringify(forged), headers: {} }, 'stripe')).status).toBe(400);
  });
});
