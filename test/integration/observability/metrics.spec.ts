import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { move, place } from '../../support/orders.js';

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
