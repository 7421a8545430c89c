import { describe, expect, it } from '@jest/globals';
import type { Order, ProblemAnswer } from '../support/builders.js';
import { startSuite } from './support/suite.js';

interface Page {
  data: Order[];
  next: string | null;
}

describe('reading orders', () => {
  const { api, uniqueRef, place, move } = startSuite();

  it('answers 304 to who has the version already', async () => {
    const { id } = await place();
    const answer = await api.get(`/v1/orders/${id}`, { 'if-none-match': '"1"' });
    expect([answer.status, answer.text]).toEqual([304, '']);
  });

  it('shows every version as it was', async () => {
    const order = await place();
    await move(order, 'confirmed');
    const then = await api.get<Order>(`/v1/orders/${order.id}?version=1`);
    expect(then.body).toEqual(order);
  });

  it('lists in pages, every order once, newest first', async () => {
    const ref = uniqueRef();
    const placed: string[] = [];
    for (let at = 0; at < 5; at += 1) placed.unshift((await place({ customer: { ref } })).id);
    const found: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const suffix: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const { body }: { body: Page } = await api.get<Page>(`/v1/orders?customerRef=${ref}&limit=2${suffix}`);
      found.push(...body.data.map(({ id }) => id));
      cursor = body.next;
    }
    expect(found).toEqual(placed);
  });

  it('knows nothing of an order that is not there', async () => {
    const { status, body } = await api.get<ProblemAnswer>('/v1/orders/01935c1e-7b3a-7c1d-9f00-00000000dead');
    expect([status, body.code]).toEqual([404, 'not-found']);
  });

  it('refuses a filter that it does not know, rather than returning too much', async () => {
    const { status, body } = await api.get<ProblemAnswer>('/v1/orders?stauts=pending');
    expect([status, body.code]).toEqual([400, 'unknown-parameter']);
  });
});
