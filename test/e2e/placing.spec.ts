import { describe, expect, it } from '@jest/globals';
import type { Order, ProblemAnswer } from '../support/builders.js';
import { lineDraft, orderDraft } from './support/order-draft.js';
import { startSuite } from './support/suite.js';

describe('placing an order', () => {
  const { api, uniqueRef, place, adopt } = startSuite();

  it('answers with the order, its address, its version and its totals', async () => {
    const answer = await api.post<Order>('/v1/orders', orderDraft({ externalRef: uniqueRef(), expectedTotal: 3582 }));
    adopt(answer);
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`/v1/orders/${answer.body.id}`);
    expect(answer.headers.get('etag')).toBe('"1"');
    expect(answer.body).toMatchObject({ status: 'pending', subtotal: 2598, tax: 494, shipping: 490, total: 3582 });
  });

  it('adds up in whole minor units, tax rounded half up line by line', async () => {
    const lines = [
      lineDraft({ quantity: 1, unitPrice: 2499, taxRatePpm: 107_500 }),
      lineDraft({ quantity: 3, unitPrice: 333, discount: 99, taxRatePpm: 70_000 }),
    ];
    expect(await place({ lines, shipping: 0 })).toMatchObject({ subtotal: 3498, discount: 99, tax: 332, total: 3731 });
  });

  it('is refused when the total is another than the caller expects', async () => {
    const { status, body } = await api.post<ProblemAnswer>('/v1/orders', orderDraft({ expectedTotal: 1 }));
    expect([status, body.code, body.actual]).toEqual([422, 'total-mismatch', 3582]);
  });

  it('names every fault of a body by its place', async () => {
    const draft = orderDraft({ currency: 'XXX', lines: [lineDraft({ quantity: 0 })] });
    const { status, body } = await api.post<ProblemAnswer>('/v1/orders', { ...draft, colour: 'red' });
    expect([status, body.code]).toEqual([422, 'validation-failed']);
    expect(body.errors?.map(({ pointer }) => pointer).toSorted()).toEqual([
      '/colour',
      '/currency',
      '/lines/0/quantity',
    ]);
  });

  it('takes an external reference once', async () => {
    const first = await place();
    const again = await api.post<ProblemAnswer>('/v1/orders', orderDraft({ externalRef: String(first.externalRef) }));
    expect([again.status, again.body.code, again.body.orderId]).toEqual([409, 'external-ref-taken', first.id]);
  });
});
