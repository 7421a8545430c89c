import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import {
  createWaybillClient,
  idempotencyKey,
  type Retry,
  type WaybillClient,
  WaybillError,
  type WaybillOptions,
} from '../../../clients/typescript/src/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Cut, CuttingProxy } from '../../support/cutting-proxy.js';

describe('the TypeScript client', () => {
  let service: TestApp;
  let proxy: CuttingProxy;
  let retries: Retry[];
  let client: WaybillClient;
  beforeAll(async () => {
    service = await startTestApp();
    proxy = await CuttingProxy.start(service.baseUrl);
  });
  afterAll(async () => {
    await proxy.close();
    await service.close();
  });
  beforeEach(() => {
    retries = [];
    client = clientOf();
  });

  function clientOf(changes: Partial<WaybillOptions> = {}): WaybillClient {
    return createWaybillClient({
      baseUrl: proxy.url,
      token: service.tenants[0].keys.operator ?? '',
      firstWaitMs: 10,
      onRetry: (retry) => retries.push(retry),
      ...changes,
    });
  }

  const place = (changes: { channel?: string; customer?: { ref: string } } = {}, header = {}) =>
    client.unwrap(
      client.api.POST('/v1/orders', {
        params: { header },
        body: {
          channel: 'web',
          externalRef: randomUUID(),
          currency: 'EUR',
          customer: { ref: 'c-1' },
          lines: [{ sku: 'TEA-1', name: 'Green tea', quantity: 1, unitPrice: 1299 }],
          ...changes,
        },
      }),
    );
  const ordersOf = async (customerRef: string) => {
    const found = [];
    for await (const order of client.each('/v1/orders', { query: { customerRef } })) found.push(order);
    return found;
  };

  it.each<[string, Cut]>([
    ['before the service has the request', 'before-request'],
    ['when the service has done it and nothing of the answer has come', 'before-answer'],
    ['in the middle of the answer', { afterBytes: 400 }],
  ])('places an order once when the connection is killed %s', async (_when, cut) => {
    const ref = randomUUID();
    const before = proxy.cuts;
    proxy.cutNext(cut);
    const order = await place({ customer: { ref } });
    expect(proxy.cuts).toBe(before + 1);
    expect(retries).toHaveLength(1);
    expect(order).toMatchObject({ status: 'pending', total: 1299 });
    expect((await ordersOf(ref)).map(({ id }) => id)).toEqual([order.id]);
  });

  it('takes a step once when connections are killed several times in a row', async () => {
    const order = await place();
    proxy.cutNext('before-answer', { afterBytes: 200 }, 'before-request');
    const moved = await client.unwrap(
      client.api.POST('/v1/orders/{id}/transitions', {
        params: { path: { id: order.id }, header: client.ifMatch(order) },
        body: { to: 'confirmed' },
      }),
    );
    expect(retries).toHaveLength(3);
    expect(moved).toMatchObject({ status: 'confirmed', version: 2 });
  });

  it('throws the network error when no try gets through', async () => {
    const impatient = clientOf({ maxTries: 2 });
    proxy.cutNext('before-request', 'before-request');
    await expect(impatient.api.GET('/v1/workflows')).rejects.toThrow('fetch failed');
    expect(retries).toHaveLength(1);
  });

  it('does the action of one key once, however often it is sent', async () => {
    const key = idempotencyKey();
    const ref = randomUUID();
    const [first, second] = await Promise.all([
      place({ customer: { ref }, ...same }, key),
      place({ customer: { ref }, ...same }, key),
    ]);
    expect(second).toEqual(first);
    expect(await ordersOf(ref)).toHaveLength(1);
  });

  it('makes a key of its own for each action that brings none', async () => {
    const ref = randomUUID();
    await place({ customer: { ref } });
    await place({ customer: { ref } });
    expect(await ordersOf(ref)).toHaveLength(2);
  });

  it('changes only the version that the caller saw', async () => {
    const seen = await place();
    const path = { id: seen.id };
    const patch = (header: { 'If-Match': string }, campaign: string) =>
      client.unwrap(
        client.api.PATCH('/v1/orders/{id}', { params: { path, header }, body: { metadata: { campaign } } }),
      );
    await patch(client.ifMatch(seen), 'spring');
    const late = await patch(client.ifMatch(seen), 'summer').catch((error: unknown) => error);
    expect(late).toBeInstanceOf(WaybillError);
    expect(late instanceof WaybillError && late.is('stale-version') && late.problem.current).toBe(2);

    const fresh = await client.unwrap(client.api.GET('/v1/orders/{id}', { params: { path } }));
    expect(await patch(client.ifMatch(fresh), 'summer')).toMatchObject({ version: 3 });
    expect(() => client.ifMatch({ ...fresh })).toThrow('This object has no ETag');
  });

  it('throws problems with their code and members', async () => {
    const { id } = await place();
    const refused = await client
      .unwrap(client.api.POST('/v1/orders/{id}/transitions', { params: { path: { id } }, body: { to: 'delivered' } }))
      .catch((error: unknown) => error);
    if (!(refused instanceof WaybillError) || !refused.is('illegal-transition')) throw refused;
    expect(refused.problem.allowed).toEqual(['canceled', 'confirmed']);
    expect(refused).toMatchObject({ status: 409, requestId: expect.any(String) });
    expect(retries).toEqual([]);
  });

  it('walks through all pages, and asks for no page that nobody wants', async () => {
    const ref = randomUUID();
    for (let at = 0; at < 5; at += 1) await place({ customer: { ref } });
    const asked: string[] = [];
    const counting = clientOf({
      fetch: (input, init) => {
        asked.push((input as Request).url);
        return fetch(input, init);
      },
    });
    const ids = new Set<string>();
    for await (const order of counting.each('/v1/orders', { query: { customerRef: ref, limit: 2 } })) ids.add(order.id);
    expect(ids.size).toBe(5);
    expect(asked).toHaveLength(3);
    for await (const order of counting.each('/v1/orders', { query: { customerRef: ref, limit: 2 } })) {
      expect(ids).toContain(order.id);
      break;
    }
    expect(asked).toHaveLength(4);
  });
});

/** What must not differ between two requests of one action. */
const same = { externalRef: 'one-action' };
