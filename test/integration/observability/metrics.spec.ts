import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { move, place } from '../../support/orders.js';
import {
  authorize,
  deliver,
  held,
  ledgerOf,
  letTimePass,
  simulatedEvent,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { rows } from '../../support/sql.js';

describe('metrics', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  /** Value of one series, such as `name{label="x"}`; undefined when it isn't there. */
  async function valueOf(series: string): Promise<number | undefined> {
    const answer = await fetch(`${service.baseUrl}/metrics`);
    expect(answer.headers.get('content-type')).toContain('text/plain; version=0.0.4');
    const line = (await answer.text()).split('\n').find((text) => text.startsWith(`${series} `));
    return line === undefined ? undefined : Number(line.slice(series.length + 1));
  }

  it('count requests by route and status, whatever the id', async () => {
    const series = 'waybill_http_requests_total{method="GET",route="/v1/orders/:id",status="200"}';
    const first = await place(service.as('operator'));
    const second = await place(service.as('operator'));
    await service.as('viewer').get(`/v1/orders/${first.id}`);
    await service.as('viewer').get(`/v1/orders/${second.id}`);
    expect(await valueOf(series)).toBe(2);
    expect(await valueOf('waybill_http_request_duration_seconds_count{method="GET",route="/v1/orders/:id"}')).toBe(2);
  });

  it('count a step once it has happened, and not when it was refused', async () => {
    const series = 'waybill_transitions_total{machine="order",to="confirmed"}';
    const order = await place(service.as('operator'));
    expect((await move(service.as('operator'), order.id, 'confirmed')).status).toBe(201);
    expect((await move(service.as('operator'), order.id, 'confirmed')).status).toBe(409);
    expect(await valueOf(series)).toBe(1);
  });

  it('count the steps of payments and refunds, once each, whoever made them', async () => {
    const of = (machine: string, to: string) => valueOf(`waybill_transitions_total{machine="${machine}",to="${to}"}`);
    const payment = await taken(service.as('operator'));
    const key = { 'idempotency-key': randomUUID() };
    for (const amount of [1000, undefined]) await step(service.as('operator'), payment.id, 'refunds', { amount });
    const voided = await held(service.as('operator'));
    for (let sent = 0; sent < 2; sent += 1) await step(service.as('operator'), voided.id, 'voids', {}, key);
    await authorize(
      service.as('operator'),
      (await place(service.as('operator'))).id,
      'tok_declined_insufficient_funds',
    );
    expect(await of('payment', 'authorized')).toBe(2);
    expect(await of('payment', 'capturing')).toBe(1);
    expect(await of('payment', 'captured')).toBe(1);
    expect(await of('refund', 'succeeded')).toBe(2);
    expect(await of('payment', 'refunded')).toBe(1);
    expect(await of('payment', 'voiding')).toBe(1);
    expect(await of('payment', 'voided')).toBe(1);
    expect(await of('payment', 'declined')).toBe(1);
  });

  it('count what a provider told of, and not again when the call comes to know it', async () => {
    const authorized = () => valueOf('waybill_transitions_total{machine="payment",to="authorized"}');
    const before = (await authorized()) ?? 0;
    const order = await place(service.as('operator'));
    const key = { 'idempotency-key': randomUUID() };
    const lost = await authorize(service.as('operator'), order.id, 'tok_error_after', {}, key);
    expect(lost.status).toBe(503);
    const [payment] = await rows<{ id: string }>(
      service.database.superuserUrl,
      'SELECT id FROM waybill.payments WHERE order_id = $1',
      [order.id],
    );
    const [entry] = await ledgerOf(service.database.superuserUrl, order.id);
    const fact = { subject: 'payment', fact: 'authorized', reference: entry?.reference ?? '', amount: TOTAL } as const;
    const event = await simulatedEvent(service, payment?.id ?? '', 'authorize', fact);
    for (let sent = 0; sent < 2; sent += 1) expect((await deliver(service.as('operator'), event)).status).toBe(200);
    expect(await authorized()).toBe(before + 1);
    await letTimePass(service.database.superuserUrl);
    expect((await authorize(service.as('operator'), order.id, 'tok_error_after', {}, key)).status).toBe(201);
    expect(await authorized()).toBe(before + 1);
  });

  it('count problems by code', async () => {
    await service.as('viewer').get('/nowhere');
    expect(await valueOf('waybill_problems_total{code="not-found"}')).toBe(1);
  });

  it('tell of the database and of the pool', async () => {
    expect(await valueOf('waybill_database_up')).toBe(1);
    expect(await valueOf('waybill_db_pool_connections')).toBeGreaterThan(0);
    expect(await valueOf('waybill_db_pool_waiting')).toBe(0);
    expect(await valueOf('process_resident_memory_bytes')).toBeGreaterThan(0);
  });

  it('name no tenant and no id', async () => {
    const text = await (await fetch(`${service.baseUrl}/metrics`)).text();
    expect(text).not.toMatch(/tenant=|[0-9a-f]{8}-[0-9a-f]{4}-/);
  });
});
