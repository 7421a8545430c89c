import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';
import { move, place } from '../../support/orders.js';
import { authorize, expectCreated, held, step, taken, TOTAL } from '../../support/payments.js';
import { contextOf, inTransaction, refusalOf, rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
});
afterAll(() => service.close());

const operator = () => service.as('operator');

describe('an order with a live payment', () => {
  it('is not canceled while money is held: the answer says how to let go of it', async () => {
    const payment = await held(operator());
    const refused = await move(operator(), payment.orderId, 'canceled');
    expect(refused).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    expect(refused.text).toContain(`/v1/payments/${payment.id}/voids`);
    expectCreated(await step(operator(), payment.id, 'voids'));
    expectCreated(await move(operator(), payment.orderId, 'canceled'));
  });

  it('is not canceled while money is taken: the answer says how to give it back', async () => {
    const payment = await taken(operator());
    const refused = await move(operator(), payment.orderId, 'canceled');
    expect(refused).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    expect(refused.text).toContain(`/v1/payments/${payment.id}/refunds`);
    expectCreated(await step(operator(), payment.id, 'refunds'));
    expectCreated(await move(operator(), payment.orderId, 'canceled'));
  });

  it('is canceled under the key that was refused before: payment-in-progress is not kept', async () => {
    const payment = await held(operator());
    const key = { 'idempotency-key': 'cancel-me' };
    const cancel = () =>
      operator().post(`/v1/orders/${payment.orderId}/transitions`, { to: 'canceled', reason: 'changed mind' }, key);
    expect((await cancel()).status).toBe(409);
    expectCreated(await step(operator(), payment.id, 'voids'));
    expect((await cancel()).status).toBe(201);
  });

  it('keeps its lines: what is held is for these', async () => {
    const payment = await held(operator());
    const line = { sku: 'TEA-1', name: 'Green tea', quantity: 3, unitPrice: 1299 };
    const patched = await operator().patch<ProblemAnswer>(
      `/v1/orders/${payment.orderId}`,
      { lines: [line] },
      { 'if-match': '*' },
    );
    expect(patched).toMatchObject({ status: 409, body: { code: 'payment-in-progress' } });
    const metadata = await operator().patch(
      `/v1/orders/${payment.orderId}`,
      { metadata: { a: 1 } },
      { 'if-match': '*' },
    );
    expect(metadata.status).toBe(200);
  });

  it('is not canceled by hand in SQL either, neither by the app role nor by the owner', async () => {
    const payment = await held(operator());
    for (const url of [service.database.appUrl, service.database.ownerUrl]) {
      const refusal = await refusalOf(
        inTransaction(url, await contextOf(service, 'operator'), (client) =>
          client.query(
            `UPDATE waybill.orders SET status = 'canceled', transition_reason = 'by hand' WHERE tenant_id = 1 AND id = $1`,
            [payment.orderId],
          ),
        ),
      );
      expect(refusal.code).toBe('WB030');
      expect(refusal.message).toContain(payment.id);
    }
  });

  it('goes on to be shipped and delivered', async () => {
    const payment = await taken(operator());
    for (const to of ['confirmed', 'shipped', 'delivered']) expectCreated(await move(operator(), payment.orderId, to));
  });
});

describe('a canceled order', () => {
  it('takes no payment', async () => {
    const order = await place(operator());
    expectCreated(await move(operator(), order.id, 'canceled'));
    const answer = await authorize(operator(), order.id);
    expect(answer).toMatchObject({
      status: 409,
      body: { code: 'guard-refused', guards: [{ code: 'order-canceled' }] },
    });
  });
});

describe('the tables of payments', () => {
  it('hold refunded ≤ captured ≤ authorized ≤ amount against everyone, tax and net included', async () => {
    const payment = await taken(operator());
    const context = { ...(await contextOf(service, 'admin')), roles: ['admin', 'system'] };
    for (const [change, constraint] of [
      ['authorized = amount + 1', 'payments_authorized_within_amount'],
      ['captured = authorized + 1', 'payments_captured_within_authorized'],
      ['captured_tax = tax + 1', 'payments_captured_within_authorized'],
      ['refunded = captured + 1', 'payments_refunded_within_captured'],
      ['refunded = captured, refunding = 1', 'payments_refunded_within_captured'],
      ['refunded = captured - 1, refunded_tax = 0', 'payments_refunded_within_captured'],
      ['refunded = captured_tax + 1, refunded_tax = captured_tax + 1', 'payments_refunded_within_captured'],
    ]) {
      const refusal = await refusalOf(
        inTransaction(service.database.ownerUrl, context, (client) =>
          client.query(`UPDATE waybill.payments SET ${change} WHERE tenant_id = 1 AND id = $1`, [payment.id]),
        ),
      );
      expect(refusal.code).toBe('23514');
      expect(refusal.message).toContain(constraint);
    }
  });

  it('refuse steps that no rule allows, a second live payment, deleting, and writing history by hand', async () => {
    const payment = await taken(operator());
    const context = { ...(await contextOf(service, 'admin')), roles: ['admin', 'system'] };
    const refused = async (statement: string) =>
      (
        await refusalOf(
          inTransaction(service.database.ownerUrl, context, (client) => client.query(statement, [payment.id])),
        )
      ).code;
    const where = 'WHERE tenant_id = 1 AND id = $1';
    expect(await refused(`UPDATE waybill.payments SET status = 'processing' ${where}`)).toBe('WB010');
    expect(await refused(`UPDATE waybill.payments SET amount = amount + 1 ${where}`)).toBe('WB002');
    expect(await refused(`UPDATE waybill.payments SET provider_ref = 'other' ${where}`)).toBe('WB002');
    expect(await refused(`DELETE FROM waybill.payments ${where}`)).toBe('WB002');
    expect(
      await refused(`INSERT INTO waybill.payment_status_history (tenant_id, payment_id, seq, from_status, to_status, changed_by, changed_at)
                     SELECT 1, $1, 99, 'captured', 'refunded', current_setting('waybill.actor')::uuid, now()`),
    ).toBe('WB002');
    expect(
      await refused(`INSERT INTO waybill.payments (tenant_id, id, order_id, provider, status, currency, amount, tax)
                     SELECT 1, gen_random_uuid(), order_id, 'simulated', 'processing', 'EUR', 1, 0
                     FROM waybill.payments ${where}`),
    ).toBe('23505');
    expect(
      await refused(`UPDATE waybill.payment_attempts SET status = 'refused' WHERE tenant_id = 1 AND payment_id = $1`),
    ).toBe('WB002');
  });

  it('are not written by the app role but through commands', async () => {
    const payment = await held(operator());
    const context = await contextOf(service, 'admin');
    for (const statement of [
      `UPDATE waybill.payments SET status = 'captured' WHERE id = $1`,
      'DELETE FROM simulated_provider.ledger WHERE intent_id = $1::text',
      `UPDATE waybill.payment_attempts SET status = 'refused' WHERE payment_id = $1`,
    ]) {
      const refusal = await refusalOf(
        inTransaction(service.database.appUrl, context, (client) => client.query(statement, [payment.id])),
      );
      expect(refusal.code).toBe('42501');
    }
  });
});

describe('an order workflow that waits for payment', () => {
  const guard = (to: string, guards: string) =>
    rows(
      service.database.superuserUrl,
      `UPDATE waybill.valid_transitions SET guards = $2 WHERE machine = 'order' AND to_state = $1 AND from_state <> 'canceled'`,
      [to, guards],
    );
  afterEach(async () => {
    await guard('confirmed', '{}');
    await guard('shipped', '{}');
  });

  it('confirms when the total is held and ships when it is taken, by one row of data each', async () => {
    await guard('confirmed', '{payment-authorized}');
    await guard('shipped', '{payment-captured}');
    const strict = await startTestApp({ database: service.database });
    try {
      const client = strict.as('operator');
      const order = await place(client);
      const unpaid = await move(client, order.id, 'confirmed');
      expect(unpaid).toMatchObject({
        status: 409,
        body: { code: 'guard-refused', guards: [{ code: 'payment-authorized' }] },
      });
      const part = expectCreated(await authorize(client, order.id, 'tok_approve', { amount: TOTAL - 1 }));
      expect((await move(client, order.id, 'confirmed')).status).toBe(409);
      expectCreated(await step(client, part.id, 'voids'));
      const payment = expectCreated(await authorize(client, order.id));
      expectCreated(await move(client, order.id, 'confirmed'));
      expect((await move(client, order.id, 'shipped')).status).toBe(409);
      expectCreated(await step(client, payment.id, 'captures'));
      expectCreated(await move(client, order.id, 'shipped'));
    } finally {
      await strict.close();
    }
  });
});
