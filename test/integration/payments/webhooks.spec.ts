import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CallRecoverer } from '../../../src/idempotency/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { place } from '../../support/orders.js';
import {
  authorize,
  deliver,
  type EventContent,
  held,
  ledgerOf,
  letTimePass,
  type Payment,
  readPayment,
  signed,
  simulatedEvent,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
  await service.app.get(CallRecoverer, { strict: false }).stop();
});
afterAll(() => service.close());

const operator = () => service.as('operator');
const fact = (payment: Pick<Payment, 'providerRef'>, what: string, amount: number | null = TOTAL): EventContent => ({
  subject: 'payment',
  fact: what,
  reference: payment.providerRef ?? '',
  amount,
});
const tell = async (payment: Payment, content: EventContent, id?: string) =>
  deliver(operator(), await simulatedEvent(service, payment.id, 'authorize', content, id));

/** An authorization whose answer was lost: the provider holds the money, and the key is open. */
async function lost(): Promise<{ payment: Payment; key: string }> {
  const order = await place(operator());
  const key = randomUUID();
  const answer = await authorize(operator(), order.id, 'tok_error_after', {}, { 'idempotency-key': key });
  expect(answer.status).toBe(503);
  const [row] = await rows<{ id: string }>(
    service.database.superuserUrl,
    'SELECT id FROM waybill.payments WHERE order_id = $1',
    [order.id],
  );
  const [entry] = await ledgerOf(service.database.superuserUrl, order.id);
  return { payment: { ...(await readPayment(operator(), row?.id ?? '')), providerRef: entry?.reference ?? '' }, key };
}

describe('an event', () => {
  it('settles a payment before the answer of its call does, and the retry tells the same', async () => {
    const { payment, key } = await lost();
    expect((await tell(payment, fact(payment, 'authorized'))).status).toBe(200);
    expect((await readPayment(operator(), payment.id)).status).toBe('authorized');
    await letTimePass(service.database.superuserUrl);
    const answer = await authorize(operator(), payment.orderId, 'tok_error_after', {}, { 'idempotency-key': key });
    expect(answer).toMatchObject({ status: 201, body: { status: 'authorized', version: 2 } });
    expect(await ledgerOf(service.database.superuserUrl, payment.orderId)).toHaveLength(1);
  });

  it('after the answer changes nothing', async () => {
    const payment = await held(operator());
    expect((await tell(payment, fact(payment, 'authorized'))).status).toBe(200);
    expect(await readPayment(operator(), payment.id)).toEqual(payment);
  });

  it('takes effect once, however often and at once it is delivered', async () => {
    const payment = await held(operator());
    const event = await simulatedEvent(service, payment.id, 'authorize', fact(payment, 'captured'), 'evt-once');
    const answers = await Promise.all(Array.from({ length: 10 }, () => deliver(operator(), event)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
    expect(await readPayment(operator(), payment.id)).toMatchObject({ status: 'captured', version: 3 });
    const kept = await rows(
      service.database.superuserUrl,
      `SELECT outcome FROM waybill.payment_webhook_events WHERE event = 'evt-once'`,
    );
    expect(kept).toEqual([{ outcome: 'applied' }]);
  });

  it.each([
    ['authorized', 'captured'],
    ['captured', 'authorized'],
  ])('leads to the same end in any order: %s, then %s', async (...order) => {
    const { payment } = await lost();
    for (const what of order) expect((await tell(payment, fact(payment, what))).status).toBe(200);
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({ status: 'captured', authorized: TOTAL, captured: TOTAL, capturedTax: 494 });
    expect((await tell(payment, fact(payment, 'voided', null))).status).toBe(200);
    expect(await readPayment(operator(), payment.id)).toEqual(end);
  });

  it('of something that happened at the provider without us is applied: a capture in part, a hold that lapsed', async () => {
    const captured = await held(operator());
    await tell(captured, fact(captured, 'captured', 1791));
    expect(await readPayment(operator(), captured.id)).toMatchObject({ captured: 1791, capturedTax: 247 });
    const lapsed = await held(operator());
    await tell(lapsed, fact(lapsed, 'voided', null));
    expect((await readPayment(operator(), lapsed.id)).status).toBe('voided');
    expect((await authorize(operator(), lapsed.orderId)).status).toBe(201);
  });

  it('declines a payment whose call nobody knows the result of', async () => {
    const { payment, key } = await lost();
    await tell(payment, { ...fact(payment, 'declined', null), code: 'do_not_honor' });
    await letTimePass(service.database.superuserUrl);
    const answer = await authorize(operator(), payment.orderId, 'tok_error_after', {}, { 'idempotency-key': key });
    expect(answer).toMatchObject({ status: 402, body: { declineCode: 'do_not_honor' } });
  });

  it('fails a refund that had succeeded, and the money is there to be refunded again', async () => {
    const payment = await taken(operator());
    await step(operator(), payment.id, 'refunds');
    const failed: EventContent = { subject: 'refund', fact: 'failed', reference: 'sim', code: 'account_closed' };
    await deliver(operator(), await simulatedEvent(service, payment.id, 'refund', failed));
    const end = await readPayment(operator(), payment.id);
    expect(end).toMatchObject({ status: 'captured', refunded: 0, refunds: [{ status: 'failed' }] });
  });

  it('acts as the tenant’s system user', async () => {
    const payment = await held(operator());
    await tell(payment, fact(payment, 'captured'));
    const [event] = await rows<{ subject: string }>(
      service.database.superuserUrl,
      `SELECT u.subject FROM audit.events e JOIN waybill.users u ON u.tenant_id = e.tenant_id AND u.id = e.actor
       WHERE e.stream = $1 ORDER BY e.version DESC LIMIT 1`,
      [`payment/${payment.id}`],
    );
    expect(event?.subject).toBe('system');
  });
});

describe('an event that means nothing here', () => {
  it('is acknowledged and kept: an unknown type of one of our payments', async () => {
    const payment = await held(operator());
    const event = await simulatedEvent(service, payment.id, 'authorize', fact(payment, 'authorized'), 'evt-unknown');
    const unknown = { ...(JSON.parse(event.body) as Record<string, unknown>), type: 'radar.warning', fact: null };
    expect((await deliver(operator(), await signed(service, unknown))).status).toBe(200);
    const kept = await rows(
      service.database.superuserUrl,
      `SELECT type, outcome, payment_id, length(digest) AS digest FROM waybill.payment_webhook_events WHERE event = 'evt-unknown'`,
    );
    expect(kept).toEqual([{ type: 'radar.warning', outcome: 'unknown', payment_id: payment.id, digest: 32 }]);
  });

  it.each([
    ['no metadata', undefined],
    ['a tenant that is not here', { waybill_tenant: '999999', waybill_key: 'a'.repeat(64) }],
    ['a tenant that is no number', { waybill_tenant: '1; DROP', waybill_key: 'a'.repeat(64) }],
  ])('is acknowledged and kept apart: %s', async (_name, metadata) => {
    const id = randomUUID();
    const stray = await signed(service, { id, type: 'payment.captured', metadata, fact: null });
    for (const status of [200, 200]) expect((await deliver(operator(), stray)).status).toBe(status);
    const kept = await rows(
      service.database.superuserUrl,
      'SELECT type FROM payment_inbox.stray_events WHERE event = $1',
      [id],
    );
    expect(kept).toEqual([{ type: 'payment.captured' }]);
  });

  it('is kept even when its key names no attempt', async () => {
    const metadata = { waybill_tenant: '1', waybill_key: 'b'.repeat(64) };
    const content = { subject: 'payment', fact: 'captured', reference: 'x', amount: 1, code: null };
    const event = await signed(service, { id: randomUUID(), type: 'payment.captured', metadata, fact: content });
    expect((await deliver(operator(), event)).status).toBe(200);
  });
});

describe('an event that is not the provider’s', () => {
  it.each([
    ['no signature', () => ({})],
    ['another secret', () => ({ 'simulated-signature': `t=${Math.floor(Date.now() / 1000)},v1=${'0'.repeat(64)}` })],
    ['nonsense', () => ({ 'simulated-signature': 'yes' })],
  ])('is refused: %s', async (_name, headers) => {
    const event = { body: JSON.stringify({ id: 'evt-forged', type: 'payment.captured' }), headers: headers() };
    expect((await deliver(operator(), event as { body: string; headers: Record<string, string> })).status).toBe(400);
  });

  it('is refused: signed long ago, changed by one byte, for a provider that is not set up', async () => {
    const event = { id: randomUUID(), type: 'payment.captured' };
    const old = await signed(service, event, Math.floor(Date.now() / 1000) - 301);
    expect((await deliver(operator(), old)).status).toBe(400);
    const fresh = await signed(service, event);
    expect((await deliver(operator(), { ...fresh, body: fresh.body.replace('captured', 'capturee') })).status).toBe(
      400,
    );
    expect((await deliver(operator(), { ...fresh, body: `${fresh.body} ` })).status).toBe(400);
    expect((await deliver(operator(), fresh, 'stripe')).status).toBe(404);
    expect((await deliver(operator(), fresh)).status).toBe(200);
  });
});
