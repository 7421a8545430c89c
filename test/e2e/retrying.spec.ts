import { describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { Order, ProblemAnswer } from '../support/builders.js';
import { orderDraft } from './support/order-draft.js';
import { startSuite } from './support/suite.js';

describe('sending a request again', () => {
  const { api, uniqueRef, place, adopt } = startSuite();

  it('with the same key gets the first answer, byte for byte', async () => {
    const draft = orderDraft({ externalRef: uniqueRef() });
    const key = { 'idempotency-key': randomUUID() };
    const first = await api.post<Order>('/v1/orders', draft, key);
    adopt(first);
    const again = await api.post<Order>('/v1/orders', draft, key);
    expect([again.status, again.text]).toEqual([201, first.text]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.headers.get('etag')).toBe(first.headers.get('etag'));
  });

  it('by a double click places one order', async () => {
    const draft = orderDraft({ externalRef: uniqueRef() });
    const key = { 'idempotency-key': randomUUID() };
    const clicks = await Promise.all(Array.from({ length: 8 }, () => api.post<Order>('/v1/orders', draft, key)));
    clicks.forEach(adopt);
    const ids = new Set(clicks.filter(({ status }) => status === 201).map(({ body }) => body.id));
    expect(ids.size).toBe(1);
    for (const { status, body } of clicks.filter(({ status }) => status !== 201)) {
      expect([status, body.code]).toEqual([409, 'idempotency-key-in-flight']);
    }
  });

  it('with the same key and another body is refused', async () => {
    const key = { 'idempotency-key': randomUUID() };
    adopt(await api.post('/v1/orders', orderDraft({ externalRef: uniqueRef() }), key));
    const other = await api.post<ProblemAnswer>('/v1/orders', orderDraft({ externalRef: uniqueRef() }), key);
    expect([other.status, other.body.code]).toEqual([422, 'idempotency-key-reused']);
  });

  it('without a key is not possible', async () => {
    const answer = await api.send<ProblemAnswer>('POST', '/v1/orders', { body: orderDraft() });
    expect([answer.status, answer.body.code]).toEqual([400, 'idempotency-key-missing']);
  });

  it('after a step was refused for good gets the same refusal', async () => {
    const { id } = await place();
    const key = { 'idempotency-key': randomUUID() };
    const first = await api.post<ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'delivered' }, key);
    const again = await api.post<ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'delivered' }, key);
    expect([first.status, first.body.code]).toEqual([409, 'illegal-transition']);
    expect(again.text).toBe(first.text);
  });
});
