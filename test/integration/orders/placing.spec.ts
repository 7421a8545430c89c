import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';

describe('placing an order', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  it('answers 201 with the order, its address and its version', async () => {
    const answer = await service.as('operator').post<Order>('/v1/orders', orderBody());
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`/v1/orders/${answer.body.id}`);
    expect(answer.headers.get('etag')).toBe('"1"');
    expect(answer.body).toMatchObject({ status: 'pending', version: 1, total: 3582 });
  });
});
