import { describe, expect, it } from '@jest/globals';
import type { Order, ProblemAnswer } from '../support/builders.js';
import { startSuite } from './support/suite.js';

describe('changing an order', () => {
  const { api, place, move } = startSuite();

  it('is a merge-patch of the version that was read', async () => {
    const { id } = await place();
    const answer = await api.patch<Order>(`/v1/orders/${id}`, { metadata: { gift: true } }, { 'if-match': '"1"' });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"2"');
    expect(answer.body.metadata).toEqual({ madeBy: 'e2e', gift: true });
  });

  it('needs If-Match', async () => {
    const { id } = await place();
    const { status, body } = await api.patch<ProblemAnswer>(`/v1/orders/${id}`, { metadata: {} });
    expect([status, body.code]).toEqual([428, 'precondition-required']);
  });

  it('loses nobody’s change when two change it at once', async () => {
    const { id } = await place();
    const patch = (name: string) =>
      api.patch<Order>(`/v1/orders/${id}`, { metadata: { [name]: true } }, { 'if-match': '"1"' });
    const statuses = (await Promise.all([patch('left'), patch('right')])).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 412]);
  });

  it('leaves the lines alone once the order is confirmed', async () => {
    const order = await place();
    await move(order, 'confirmed');
    const answer = await api.patch<ProblemAnswer>(`/v1/orders/${order.id}`, { shipping: 0 }, { 'if-match': '"2"' });
    expect([answer.status, answer.body.code]).toEqual([409, 'not-editable']);
  });
});
