import { afterEach, describe, expect, it } from '@jest/globals';
import { makeApiKey } from '../../../src/identity/api-key.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody, type ProblemAnswer } from '../../support/builders.js';
import { rows } from '../../support/sql.js';

describe('rate limits and the look-up of credentials', () => {
  let service: TestApp;
  afterEach(() => service.close());

  const limited = async (RATE_LIMIT: string, env: Record<string, string> = {}) => {
    service = await startTestApp({ env: { RATE_LIMIT, ...env } });
    return service;
  };
  const wrongKey = () => new ApiClient(service.baseUrl, makeApiKey(1).text);
  const statusesOf = async (count: number, ask: (i: number) => Promise<{ status: number }>) => {
    const statuses: number[] = [];
    for (let i = 0; i < count; i += 1) statuses.push((await ask(i)).status);
    return statuses;
  };
  /** Transactions of the database since it was made. */
  const transactions = async () => {
    const [row] = await rows<{ count: number }>(
      service.database.superuserUrl,
      `SELECT xact_commit::int AS count FROM pg_stat_database WHERE datname = current_database()`,
    );
    return row?.count ?? 0;
  };

  it('count all requests of an address before anybody is known, and tell of it', async () => {
    await limited('address=3/h');
    const first = await service.as('viewer').get('/problems');
    expect(first.headers.get('ratelimit')).toBe('"address";r=2;t=1200');
    expect(first.headers.get('ratelimit-policy')).toBe('"address";q=3;w=3600');
    expect(await statusesOf(3, () => service.as('viewer').get('/nowhere'))).toEqual([404, 404, 429]);
    const refused = await service.as('viewer').get<ProblemAnswer>('/v1/workflows');
    expect([refused.status, refused.body.code]).toEqual([429, 'rate-limited']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(refused.headers.get('ratelimit')).toMatch(/^"address";r=0;t=\d+$/);
    expect(refused.headers.get('x-content-type-options')).toBe('nosniff');
    expect(refused.headers.get('x-request-id')).toBe(refused.body.requestId);
  });

  it('count requests of a user by user, not by key, and leave others alone', async () => {
    await limited('principal=2/h');
    const admin = service.as('admin');
    const { body } = await service.as('operator').get<{ id: string }>('/v1/workflows');
    expect(body).toBeDefined();
    const first = await admin.get<{ data: { id: string; subject: string }[] }>('/v1/users');
    expect(first.headers.get('ratelimit')).toBe('"principal";r=1;t=1800');
    const self = first.body.data.find(({ subject }) => subject === 'demo-admin');
    const { body: second } = await admin.post<{ secret: string }>('/v1/api-keys', { userId: self?.id, name: 'second' });
    expect(await statusesOf(1, () => new ApiClient(service.baseUrl, second.secret).get('/v1/users'))).toEqual([429]);
    expect((await service.asOther('admin').get('/v1/users')).status).toBe(200);
    expect((await service.as('viewer').get('/v1/orders')).status).toBe(200);
  });

  it('refuse further guesses from an address, while credentials that were accepted go on working', async () => {
    await limited('failures=5/h');
    const known = service.as('viewer');
    expect((await known.get('/v1/workflows')).status).toBe(200);
    expect(await statusesOf(7, () => wrongKey().get('/v1/workflows'))).toEqual([401, 401, 401, 401, 401, 429, 429]);
    const refused = await wrongKey().get<ProblemAnswer>('/v1/workflows');
    expect(refused.headers.get('ratelimit-policy')).toBe('"failures";q=5;w=3600');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await known.get('/v1/workflows')).status).toBe(200);
    // Its five seconds are over: it is looked up again, and still welcome.
    await new Promise((resolve) => setTimeout(resolve, 5_200));
    expect((await known.get('/v1/workflows')).status).toBe(200);
    expect((await service.as('operator').get('/v1/workflows')).status).toBe(429);
  });

  it('let no guess slip through when many come at once', async () => {
    await limited('failures=5/h');
    const answers = await Promise.all(Array.from({ length: 60 }, () => wrongKey().get('/v1/workflows')));
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(55);
  });

  it('forgive a client that repeats one refused key, and a good key that comes many times at once', async () => {
    await limited('failures=5/h');
    const wrong = wrongKey();
    expect(new Set(await statusesOf(20, () => wrong.get('/v1/workflows')))).toEqual(new Set([401]));
    const answers = await Promise.all(Array.from({ length: 40 }, () => service.as('operator').get('/v1/workflows')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('believe X-Forwarded-For only of a proxy that the settings name', async () => {
    await limited('address=2/h');
    const from = (ip: string) => service.as('viewer').get('/problems', { 'x-forwarded-for': ip });
    expect(await statusesOf(4, (i) => from(`192.0.2.${i}`))).toEqual([200, 200, 429, 429]);
    await service.close();
    await limited('address=2/h', { TRUST_PROXY: '127.0.0.1' });
    expect(await statusesOf(4, (i) => from(`192.0.2.${i}`))).toEqual([200, 200, 200, 200]);
    expect(await statusesOf(2, () => from('192.0.2.1'))).toEqual([200, 429]);
    // The client's own entries stand left of the proxy's.
    expect(await statusesOf(1, () => from('203.0.113.9, 192.0.2.1'))).toEqual([429]);
  });

  it('count a caller as one whose proxy tells of ports, or writes the address in another way', async () => {
    await limited('address=1/h', { TRUST_PROXY: '127.0.0.1,10.0.0.0/8' });
    const callers = [
      [
        '203.0.113.7:50001',
        '203.0.113.7:50002',
        '203.0.113.7',
        '"203.0.113.7:9"',
        '::ffff:203.0.113.7',
        '::ffff:cb00:7107',
      ],
      ['[2001:db8::7]:50001', '[2001:db8::7]', '2001:DB8::8', '2001:0db8:0:0::9', '[2001:db8::7%eth0]:1'],
      // Hops that are trusted, with a port.
      ['198.51.100.9, 10.0.0.1:443', '203.0.113.9:1, 198.51.100.9:1,10.0.0.1:80 , 10.9.9.9:443', '198.51.100.9'],
    ];
    for (const texts of callers) {
      const ask = (i: number) => service.as('viewer').get('/problems', { 'x-forwarded-for': texts[i] ?? '' });
      expect(await statusesOf(texts.length, ask)).toEqual(texts.map((_, i) => (i === 0 ? 200 : 429)));
    }
  });

  it('count no health check: a balancer that is told 429 takes the process for a dead one', async () => {
    await limited('address=1/h');
    expect((await service.as('viewer').get('/problems')).status).toBe(200);
    expect((await service.as('viewer').get('/problems')).status).toBe(429);
    for (const probe of ['/health/live', '/health/ready']) {
      expect(await statusesOf(3, () => service.as('viewer').get(probe))).toEqual([200, 200, 200]);
    }
  });

  it('cost no query for a key that was seen lately, nor for one that has no key’s form', async () => {
    await limited('off');
    const viewer = service.as('viewer');
    await viewer.get('/v1/workflows');
    const settled = async () => {
      // The statistics of a connection are written at most once a second.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      return transactions();
    };
    await settled();
    const before = await settled();
    await statusesOf(200, () => viewer.get('/v1/workflows'));
    for (const text of ['wb_1_x', `${makeApiKey(1).text}x`, 'wb_0_000000000000_', 'nonsense', 'a.b.c']) {
      await statusesOf(20, () => new ApiClient(service.baseUrl, text).get('/v1/workflows'));
    }
    const after = await settled();
    // The measuring itself and the background of the server take a few; 300 requests would take 300.
    expect(after - before).toBeLessThan(40);
  });

  it('turn a caller away before the body is read', async () => {
    await limited('failures=1/h');
    await wrongKey().get('/v1/workflows');
    const broken = (client: ApiClient) =>
      client.send<ProblemAnswer>('POST', '/v1/orders', { body: '{"broken":', headers: { 'idempotency-key': 'k' } });
    const unknown = await broken(wrongKey());
    const nobody = await broken(new ApiClient(service.baseUrl));
    expect([unknown.body.code, nobody.body.code]).toEqual(['rate-limited', 'unauthenticated']);
  });

  it('do not touch a client that works normally', async () => {
    service = await startTestApp();
    const operator = service.as('operator');
    const statuses = await statusesOf(150, (i) =>
      i % 3 === 0 ? operator.post('/v1/orders', orderBody()) : operator.get('/v1/orders?limit=1'),
    );
    expect(statuses.filter((status) => status >= 300)).toEqual([]);
  });
});
