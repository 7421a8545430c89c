import { describe, expect, it } from '@jest/globals';
import type { Order, ProblemAnswer } from '../support/builders.js';
import { startSuite } from './support/suite.js';

interface Transitions {
  state: string;
  final: boolean;
  transitions: { to: string; allowed: boolean }[];
}

describe('moving an order', () => {
  const { api, place, move } = startSuite();

  it('leads through its whole life, and the history tells of it', async () => {
    const order = await place();
    await move(order, 'confirmed');
    await move(order, 'canceled', 'customer changed their mind');
    const { body } = await api.get<{ data: { from: string | null; to: string; reason: string | null }[] }>(
      `/v1/orders/${order.id}/history`,
    );
    expect(body.data.map(({ from, to, reason }) => [from, to, reason])).toEqual([
      [null, 'pending', null],
      ['pending', 'confirmed', null],
      ['confirmed', 'canceled', 'customer changed their mind'],
    ]);
  });

  it('offers what is allowed now, and nothing once the order is final', async () => {
    const order = await place();
    const before = await api.get<Transitions>(`/v1/orders/${order.id}/transitions`);
    expect(before.body.transitions.map(({ to }) => to).toSorted()).toEqual(['canceled', 'confirmed']);
    await move(order, 'canceled', 'test');
    const after = await api.get<Transitions>(`/v1/orders/${order.id}/transitions`);
    expect(after.body).toMatchObject({ state: 'canceled', final: true, transitions: [] });
  });

  it('is refused along a way that the workflow does not have, and says which it has', async () => {
    const { id } = await place();
    const { status, body } = await api.post<ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'shipped' });
    expect([status, body.code, body.allowed]).toEqual([409, 'illegal-transition', ['canceled', 'confirmed']]);
  });

  it('needs a reason to cancel', async () => {
    const { id } = await place();
    const { status, body } = await api.post<ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'canceled' });
    expect([status, body.code]).toEqual([422, 'reason-required']);
  });

  it('has one winner when twenty want the same step at once', async () => {
    const { id } = await place();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => api.post<ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'confirmed' })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    const codes = new Set(answers.filter(({ status }) => status !== 201).map(({ body }) => body.code));
    expect([...codes]).toEqual(['already-in-state']);
  });

  it('is refused for who decided on a version that is out of date', async () => {
    const order = await place();
    await move(order, 'confirmed');
    const late = await api.post<ProblemAnswer>(
      `/v1/orders/${order.id}/transitions`,
      { to: 'canceled', reason: 'too late' },
      { 'if-match': '"1"' },
    );
    expect([late.status, late.body.code, late.body.current]).toEqual([412, 'stale-version', 2]);
    expect((await api.get<Order>(`/v1/orders/${order.id}`)).body.status).toBe('confirmed');
  });
});
