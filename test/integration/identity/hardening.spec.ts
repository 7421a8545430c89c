import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { connect } from 'node:net';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';

describe('HTTP hardening', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp({ env: { CORS_ORIGINS: 'https://app.example.test, https://two.example.test' } });
  });
  afterAll(() => service.close());

  const port = () => Number(new URL(service.baseUrl).port);
  /** Sends text, bit by bit when asked to, and reads until the server closes. */
  const raw = (text: string, drip?: { text: string; everyMs: number }): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(port(), '127.0.0.1');
      let answer = '';
      const timer = drip && setInterval(() => socket.write(drip.text), drip.everyMs);
      socket.on('data', (chunk) => (answer += chunk.toString()));
      socket.on('error', () => undefined);
      socket.on('close', () => {
        clearInterval(timer);
        resolve(answer);
      });
      socket.write(text);
    });
  const problemIn = (answer: string) => {
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    return { status: Number(head.split(' ')[1]), body: JSON.parse(body) as ProblemAnswer };
  };

  it('sends security headers with answers, problems and unknown routes', async () => {
    for (const path of ['/v1/orders', '/v1/orders/nonsense', '/nowhere', '/health/live', '/openapi.json']) {
      const { headers } = await service.as('viewer').get(path);
      const found = Object.fromEntries(headers.entries());
      expect(found).toMatchObject({
        'content-security-policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'SAMEORIGIN',
        'referrer-policy': 'no-referrer',
        'strict-transport-security': 'max-age=31536000',
        'cross-origin-opener-policy': 'same-origin',
      });
      expect(found).not.toHaveProperty('x-powered-by');
      expect(found).not.toHaveProperty('server');
    }
    const anonymous = await new ApiClient(service.baseUrl).get('/v1/orders');
    expect([anonymous.status, anonymous.headers.get('x-content-type-options')]).toEqual([401, 'nosniff']);
  });

  it('leaves problem pages their own policy, in which only their style sheet applies', async () => {
    for (const path of ['/problems', '/problems/rate-limited', '/problems/would-lock-out', '/problems/subject-taken']) {
      const { status, headers } = await new ApiClient(service.baseUrl).get(path);
      expect(status).toBe(200);
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+';/);
    }
  });

  const preflight = (origin: string) =>
    new ApiClient(service.baseUrl).send('OPTIONS', '/v1/orders', {
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,idempotency-key',
      },
    });

  it('lets pages of the named origins call it', async () => {
    for (const origin of ['https://app.example.test', 'https://two.example.test']) {
      const { status, headers } = await preflight(origin);
      expect([status, headers.get('access-control-allow-origin')]).toEqual([204, origin]);
      expect(headers.get('access-control-allow-headers')).toBe('authorization,content-type,idempotency-key');
      expect(headers.get('access-control-allow-methods')).toBe('GET, HEAD, POST, PATCH, DELETE');
      expect(headers.get('access-control-allow-credentials')).toBeNull();
      const answer = await service.as('viewer').get('/v1/orders', { origin });
      expect(answer.headers.get('access-control-allow-origin')).toBe(origin);
      const refused = await new ApiClient(service.baseUrl).get('/v1/orders', { origin });
      expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, origin]);
    }
  });

  it('lets them read every header that the API document names, and those that are not in it', async () => {
    const { body: document } = await service.as('viewer').get('/openapi.json');
    const named = new Set<string>();
    JSON.stringify(document, (key, value: unknown) => {
      if (key === 'headers') for (const name of Object.keys(value as object)) named.add(name);
      return value;
    });
    // Which every page may read anyway.
    named.delete('Cache-Control');
    expect(named.size).toBeGreaterThan(6);
    const { headers } = await service.as('viewer').get('/v1/orders', { origin: 'https://app.example.test' });
    const exposed = (headers.get('access-control-expose-headers') ?? '').split(', ');
    expect(exposed).toEqual(expect.arrayContaining([...named, 'RateLimit', 'RateLimit-Policy', 'Content-Disposition']));
  });

  it.each(['https://evil.example.test', 'https://app.example.test.evil.test', 'http://app.example.test', 'null'])(
    'allows nothing to pages of %s',
    async (origin) => {
      const { headers } = await preflight(origin);
      expect(headers.get('access-control-allow-origin')).toBeNull();
      const answer = await service.as('viewer').get('/v1/orders', { origin });
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    },
  );

  it('allows nothing to any page unless origins are named', async () => {
    const closed = await startTestApp();
    const origin = 'https://app.example.test';
    const answer = await closed.as('viewer').get('/v1/orders', { origin });
    const options = await new ApiClient(closed.baseUrl).send<ProblemAnswer>('OPTIONS', '/v1/orders', {
      headers: { origin, 'access-control-request-method': 'POST' },
    });
    expect([...answer.headers.keys(), ...options.headers.keys()].filter((name) => /access-control/.test(name))).toEqual(
      [],
    );
    expect([options.status, options.body.code]).toEqual([405, 'method-not-allowed']);
    await closed.close();
  });

  it('answers oversized headers, addresses, and floods of headers with a problem', async () => {
    const long = `GET /v1/orders HTTP/1.1\r\nHost: x\r\nCookie: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(problemIn(await raw(long))).toMatchObject({ status: 431, body: { code: 'headers-too-large' } });
    const address = `GET /v1/orders?q=${'x'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`;
    expect(problemIn(await raw(address))).toMatchObject({ status: 431, body: { code: 'headers-too-large' } });
    const flood = `GET / HTTP/1.1\r\nHost: x\r\n${Array.from({ length: 5_000 }, (_, i) => `x-${i}: y\r\n`).join('')}\r\n`;
    expect(problemIn(await raw(flood))).toMatchObject({ status: 431, body: { code: 'headers-too-large' } });
  });

  it('answers a body that is too large with a problem, whether it says so beforehand or not', async () => {
    const operator = service.as('operator');
    const large = JSON.stringify({ padding: 'x'.repeat(1_100_000) });
    const answer = await operator.post<ProblemAnswer>('/v1/orders', large);
    expect([answer.status, answer.body.code]).toEqual([413, 'payload-too-large']);
  });

  it('closes connections that drip headers or a body, with a problem', async () => {
    const key = service.tenants[0].keys.operator;
    const start = performance.now();
    const [headers, body] = await Promise.all([
      raw('GET /v1/orders HTTP/1.1\r\nHost: x\r\n', { text: 'x-drip: y\r\n', everyMs: 1_000 }),
      raw(
        `POST /v1/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{`,
        { text: ' ', everyMs: 1_000 },
      ),
    ]);
    expect(problemIn(headers)).toMatchObject({ status: 408, body: { code: 'request-timeout' } });
    expect(problemIn(body)).toMatchObject({ status: 408, body: { code: 'request-timeout' } });
    expect(performance.now() - start).toBeLessThan(150_000);
    // Meanwhile and afterwards the service answers.
    expect((await service.as('viewer').get('/v1/orders')).status).toBe(200);
  });
});
