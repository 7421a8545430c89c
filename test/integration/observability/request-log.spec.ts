import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type DemoTenant, makeDemoTenants } from '../../../src/identity/index.js';
import { ApiClient } from '../../support/api-client.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { type ServiceLogEntry, type RealService, startRealService } from '../../support/real-service.js';
import { rows } from '../../support/sql.js';

describe('the log of a service', () => {
  let database: TestDatabase;
  let tenant: DemoTenant;
  let service: RealService;
  let client: ApiClient;
  beforeAll(async () => {
    database = await createTestDatabase();
    [tenant] = (await makeDemoTenants(database.ownerUrl)) as [DemoTenant];
    service = startRealService({ env: { DATABASE_URL: database.appUrl } });
    client = new ApiClient(await service.baseUrl(), tenant.keys.operator);
  });
  afterAll(async () => {
    await service.kill();
    await database.drop();
  });

  const lineOf = (requestId: string): Promise<ServiceLogEntry> =>
    service.entry((line) => line.event === 'request' && line.requestId === requestId);

  it('has one line for each request, with its route’s pattern and no address', async () => {
    const requestId = randomUUID();
    const placed = await client.post<Order>('/v1/orders', orderBody(), { 'x-request-id': requestId });
    expect(placed.status).toBe(201);
    expect(await lineOf(requestId)).toMatchObject({
      level: 'info',
      requestId,
      tenant: Number(tenant.id),
      user: expect.stringMatching(/^[0-9a-f-]{36}$/),
      method: 'POST',
      route: '/v1/orders',
      status: 201,
      durationMs: expect.any(Number),
      idempotency: 'executed',
      traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    const reading = randomUUID();
    await client.get(`/v1/orders/${placed.body.id}`, { 'x-request-id': reading });
    const line = await lineOf(reading);
    expect(line).toMatchObject({ method: 'GET', route: '/v1/orders/:id', status: 200 });
    expect(line).not.toHaveProperty('idempotency');
    expect(JSON.stringify(line)).not.toContain(placed.body.id);
    expect(service.log.filter(({ requestId: id }) => id === reading)).toHaveLength(1);
  });

  it('belongs to the caller’s trace', async () => {
    const traceId = randomUUID().replaceAll('-', '');
    const requestId = randomUUID();
    await client.get('/v1/orders', { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, 'x-request-id': requestId });
    expect(await lineOf(requestId)).toMatchObject({ traceId });
  });

  it('names the problem of a request that failed', async () => {
    const requestId = randomUUID();
    await client.get(`/v1/orders/${randomUUID()}`, { 'x-request-id': requestId });
    expect(await lineOf(requestId)).toMatchObject({ status: 404, problem: 'not-found' });
    const unknown = randomUUID();
    await client.get('/nowhere/else', { 'x-request-id': unknown });
    expect(await lineOf(unknown)).toMatchObject({ status: 404, route: 'none' });
  });

  it('has no probe in it unless asked for', async () => {
    await client.get('/health/live');
    await client.get('/metrics');
    const requestId = randomUUID();
    await client.get('/v1/orders', { 'x-request-id': requestId });
    await lineOf(requestId);
    expect(service.log.filter(({ route }) => ['/health/live', '/metrics'].includes(String(route)))).toEqual([]);
  });

  it('holds no credential, no cookie and nothing of a body', async () => {
    const requestId = randomUUID();
    const body = orderBody({ customer: { ref: 'c-1', name: 'Grace Secretname', email: 'grace@hidden.test' } });
    await client.post('/v1/orders?nonsense=Secretquery', body, {
      cookie: 'session=Secretcookie',
      'x-request-id': requestId,
    });
    await client.post('/v1/orders', { ...body, nonsense: 1 }, { authorization: 'Bearer Secrettoken' });
    await lineOf(requestId);
    const everything = JSON.stringify(service.log) + service.errors();
    expect(everything).not.toMatch(/Secret|hidden\.test|wb_\d/);
    expect(everything).not.toContain(tenant.keys.operator);
    expect(everything).not.toContain(new URL(database.appUrl).password);
  });

  it('holds nothing of a value that PostgreSQL repeats in an error, whatever it is an error of', async () => {
    await rows(
      database.superuserUrl,
      `CREATE FUNCTION public.repeat_value() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE 'no such thing as "%"', NEW.external_ref USING
           ERRCODE = '22P02', DETAIL = NEW.external_ref, HINT = NEW.external_ref; END $$;
       CREATE TRIGGER orders_00_repeat BEFORE INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION public.repeat_value()`,
    );
    const requestId = randomUUID();
    const body = orderBody({ externalRef: 'Ms Secretvalue' });
    const answer = await client.post<ProblemAnswer>('/v1/orders', body, { 'x-request-id': requestId });
    await rows(database.superuserUrl, 'DROP FUNCTION public.repeat_value CASCADE');
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal-error' } });
    await lineOf(requestId);
    const fault = await service.entry(({ level, requestId: id }) => level === 'error' && id === requestId);
    expect(fault.msg).toContain('error [22P02]: PostgreSQL refused it with 22P02');
    expect(JSON.stringify(fault.err)).toContain('    at ');
    expect(JSON.stringify(service.log) + service.errors()).not.toContain('Secretvalue');
  });

  it('is JSON from the first line to the last', () => {
    expect(service.log.filter(({ level }) => level === 'not-json')).toEqual([]);
  });
});
