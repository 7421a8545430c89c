import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';

describe('a retry with the same key', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  it('gets the same status, bytes, Content-Type, Location and ETag, and is marked as a replay', async () => {
    const key = { 'idempotency-key': randomUUID() };
    const body = orderBody();
    const first = await service.as('operator').post<Order>('/v1/orders', body, key);
    const second = await service.as('operator').post<Order>('/v1/orders', body, key);
    expect(first.status).toBe(201);
    expect(second.status).toBe(201);
    expect(second.text).toBe(first.text);
    for (const name of ['content-type', 'location', 'etag']) {
      expect(first.headers.get(name)).not.toBeNull();
      expect(second.headers.get(name)).toBe(first.headers.get(name));
    }
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(second.headers.get('idempotency-created-at')).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(second.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
  });
});
