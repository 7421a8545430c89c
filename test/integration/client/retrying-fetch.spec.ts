import { describe, expect, it } from '@jest/globals';
import { eventually } from '../../support/waiting.js';
import { type Retry, type RetryOptions, retryingFetch } from '../../../clients/typescript/src/retrying-fetch.js';

type Given = { status: number; body?: string; headers?: Record<string, string> } | Error;

/** Answers in this order, and remembers what was asked. */
function staged(...answers: Given[]) {
  const requests: Request[] = [];
  const fetchOnce = (async (request: Request) => {
    requests.push(request);
    const answer = answers[requests.length - 1] ?? { status: 200 };
    if (answer instanceof Error) throw answer;
    const { status, body = '{}', headers = {} } = answer;
    return new Response(status === 304 ? null : body, {
      status,
      headers: { 'content-type': 'application/json', ...headers },
    });
  }) as typeof fetch;
  const retries: Retry[] = [];
  const send = (request: Request, options: RetryOptions = {}) =>
    retryingFetch(fetchOnce, { firstWaitMs: 1, onRetry: (retry) => retries.push(retry), ...options })(request);
  return { requests, retries, send };
}

const get = () => new Request('http://waybill.test/v1/orders');
const post = (headers = {}) =>
  new Request('http://waybill.test/v1/orders', { method: 'POST', body: '{"a":1}', headers });

describe('a request of the client', () => {
  it.each([408, 429, 502, 503, 504])('that is answered %i is sent again', async (status) => {
    const { requests, send } = staged({ status });
    expect((await send(get())).status).toBe(200);
    expect(requests).toHaveLength(2);
  });

  it.each([400, 401, 404, 409, 422, 500])('that is answered %i is not sent again', async (status) => {
    const { requests, send } = staged({ status });
    expect((await send(post())).status).toBe(status);
    expect(requests).toHaveLength(1);
  });

  it('waits for a key that is in flight', async () => {
    const { requests, retries, send } = staged({ status: 409, body: '{"code":"idempotency-key-in-flight"}' });
    expect((await send(post())).status).toBe(200);
    expect(requests).toHaveLength(2);
    expect(retries[0]?.reason).toBe('409 idempotency-key-in-flight');
  });

  it.each(['2147484', '99999999999', '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT'])(
    'waits as long as a timer can when it is told to come back after %s',
    async (time) => {
      const { requests, retries, send } = staged({ status: 503, headers: { 'retry-after': time } });
      const patience = new AbortController();
      const sent = send(new Request('http://waybill.test/v1/orders', { signal: patience.signal }));
      await eventually(() => retries.length > 0);
      // A timer that overflows goes off within a millisecond, and would have sent it again by now.
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect([requests.length, retries[0]?.waitMs]).toEqual([1, 2_147_483_647]);
      patience.abort(new Error('enough'));
      await expect(sent).rejects.toThrow('enough');
    },
  );

  it('carries the same key and body in every try', async () => {
    const { requests, send } = staged(new TypeError('fetch failed'), { status: 503 });
    await send(post());
    const sent = await Promise.all(requests.map(async (one) => [one.headers.get('idempotency-key'), await one.text()]));
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(sent[0]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), '{"a":1}']);
  });

  it('carries the key that the caller gave, and a GET carries none', async () => {
    const { requests, send } = staged();
    await send(post({ 'idempotency-key': 'mine' }));
    await send(get());
    expect(requests.map((one) => one.headers.get('idempotency-key'))).toEqual(['mine', null]);
  });

  it('waits as long as Retry-After says, in seconds or as a date', async () => {
    const soon = new Date(Date.now() + 3000).toUTCString();
    const { retries, send } = staged(
      { status: 429, headers: { 'retry-after': '1' } },
      { status: 503, headers: { 'retry-after': soon } },
    );
    await send(get());
    expect(retries.map(({ waitMs }) => Math.round(waitMs / 1000))).toEqual([1, expect.any(Number)]);
    expect(retries[1]?.waitMs).toBeGreaterThan(500);
  });

  it('waits longer each time up to a bound, with jitter', async () => {
    const { retries, send } = staged(...Array.from({ length: 5 }, () => ({ status: 503 })));
    await send(get(), { firstWaitMs: 8, longestWaitMs: 20 });
    const bounds = [8, 16, 20, 20, 20];
    for (const [at, { waitMs }] of retries.entries()) {
      expect(waitMs).toBeGreaterThanOrEqual((bounds[at] ?? 0) / 2);
      expect(waitMs).toBeLessThanOrEqual(bounds[at] ?? 0);
    }
  });

  it('gives the last answer when the tries are used up', async () => {
    const { requests, send } = staged({ status: 503 }, { status: 503, body: '{"code":"unavailable"}' });
    const last = await send(get(), { maxTries: 2 });
    expect([last.status, await last.json()]).toEqual([503, { code: 'unavailable' }]);
    expect(requests).toHaveLength(2);
  });

  it('ends at once when the caller aborts, in the middle of a wait too', async () => {
    const controller = new AbortController();
    const { requests, send } = staged({ status: 503, headers: { 'retry-after': '60' } });
    const sent = send(new Request(get(), { signal: controller.signal }));
    setTimeout(() => controller.abort(), 20);
    await expect(sent).rejects.toThrow('abort');
    expect(requests).toHaveLength(1);
  });
});
