import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
});
afterAll(() => service.close());

const newKey = () => ({ 'idempotency-key': randomUUID() });

describe('18. the same values in another order', () => {
  it('of members are the same request, and replay', async () => {
    const key = newKey();
    const body = orderBody();
    const backwards = Object.fromEntries(Object.entries(body).toReversed());
    expect(JSON.stringify(backwards)).not.toBe(JSON.stringify(body));
    const first = await service.as('operator').post('/v1/orders', body, key);
    const second = await service.as('operator').post('/v1/orders', backwards, key);
    expect(second.text).toBe(first.text);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
  });

  it('of an array are another request, and 422 without the stored answer', async () => {
    const key = newKey();
    const lines = ['TEA-1', 'TEA-2'].map((sku) => ({ sku, name: 'Tea', quantity: 1, unitPrice: 100 }));
    const body = orderBody({ lines, expectedTotal: undefined });
    const first = await service.as('operator').post<Order>('/v1/orders', body, key);
    expect(first.status).toBe(201);
    const second = await service
      .as('operator')
      .post<ProblemAnswer>('/v1/orders', { ...body, lines: lines.toReversed() }, key);
    expect(second).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
    expect(second.text).not.toContain(first.body.id);
  });
});

describe('23. a key that is used', () => {
  it('on another path shows nothing of the first answer', async () => {
    const key = newKey();
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody(), key);
    const path = `/v1/orders/${placed.body.id}/transitions`;
    const moved = await service.as('operator').post<ProblemAnswer>(path, { to: 'confirmed' }, key);
    expect(moved).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
    expect(moved.text).not.toContain('Ada');
    const { body } = await service.as('operator').get<Order>(`/v1/orders/${placed.body.id}`);
    expect(body.status).toBe('pending');
  });

  it('by another tenant is another key', async () => {
    const key = newKey();
    const body = orderBody();
    const ours = await service.as('operator').post<Order>('/v1/orders', body, key);
    const theirs = await service.asOther('operator').post<Order>('/v1/orders', body, key);
    expect(theirs.status).toBe(201);
    expect(theirs.headers.get('idempotency-replayed')).toBeNull();
    expect(theirs.body.id).not.toBe(ours.body.id);
  });

  it('by another user of the tenant shows nothing of the first answer', async () => {
    const key = newKey();
    const body = orderBody();
    const first = await service.as('operator').post<Order>('/v1/orders', body, key);
    const second = await service.as('admin').post<ProblemAnswer>('/v1/orders', body, key);
    expect(second).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
    expect(second.text).not.toContain(first.body.id);
  });

  it.each([
    ['another If-Match', { 'if-match': '"2"' }],
    ['no If-Match', {}],
  ])('with %s is another request', async (_what, headers) => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    const key = newKey();
    const path = `/v1/orders/${placed.body.id}/transitions`;
    const body = { to: 'confirmed' };
    const first = await service.as('operator').post(path, body, { ...key, 'if-match': '"1"' });
    expect(first.status).toBe(201);
    const second = await service.as('operator').post<ProblemAnswer>(path, body, { ...key, ...headers });
    expect(second.body.code).toBe('idempotency-key-reused');
  });
});
