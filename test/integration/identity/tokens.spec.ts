import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { exportSPKI, SignJWT } from 'jose';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody, type ProblemAnswer } from '../../support/builders.js';
import { IdentityProvider, makeKey, makeWeakKey } from '../../support/identity-provider.js';
import { withClient } from '../../support/sql.js';

describe('a bearer token of the identity provider', () => {
  let provider: IdentityProvider;
  let service: TestApp;
  beforeAll(async () => {
    provider = await IdentityProvider.start();
    service = await startTestApp({ env: { ...provider.env, RATE_LIMIT: 'off' } });
  });
  afterAll(async () => {
    await service.close();
    await provider.close();
  });

  const list = (token: string) => new ApiClient(service.baseUrl, token).get<ProblemAnswer>('/v1/orders');
  const now = () => Math.floor(Date.now() / 1000);
  const expectRefusal = async (token: string, detail = 'The token is not accepted here.') => {
    const answer = await list(token);
    expect({ status: answer.status, code: answer.body?.code, detail: answer.body?.detail }).toEqual({
      status: 401,
      code: 'unauthenticated',
      detail,
    });
    expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  };

  it('is good for what its roles allow, in the tenant that it names', async () => {
    const client = new ApiClient(service.baseUrl, await provider.token());
    const placed = await client.post<{ id: string }>('/v1/orders', orderBody());
    expect(placed.status).toBe(201);
    expect((await service.as('viewer').get(`/v1/orders/${placed.body.id}`)).status).toBe(200);
    expect((await service.asOther('viewer').get(`/v1/orders/${placed.body.id}`)).status).toBe(404);
    const viewer = new ApiClient(service.baseUrl, await provider.token({ claims: { roles: ['viewer'] } }));
    expect((await viewer.post('/v1/orders', orderBody())).status).toBe(403);
  });

  it('names its tenant by id or by slug', async () => {
    const id = service.tenants[1].id;
    const { status } = await list(await provider.token({ claims: { tenant: id } }));
    const asNumber = await list(await provider.token({ claims: { tenant: Number(id) } }));
    const asSlug = await list(await provider.token({ claims: { tenant: 'other' } }));
    expect([status, asNumber.status, asSlug.status]).toEqual([200, 200, 200]);
  });

  it.each(['ES256', 'EdDSA', 'PS256'])('may be signed with %s', async (alg) => {
    const key = await makeKey(`key-${alg}`, alg);
    provider.keys.push(key);
    const isolated = await startTestApp({ env: provider.env });
    const client = new ApiClient(isolated.baseUrl, await provider.token({ key }));
    expect((await client.get('/v1/orders')).status).toBe(200);
    await isolated.close();
  });

  it('is refused once expired, and before it is valid, beyond a tolerance for clocks', async () => {
    const expired = 'The token has expired. Get a new one.';
    await expectRefusal(await provider.token({ claims: { exp: now() - 60 } }), expired);
    await expectRefusal(await provider.token({ claims: { nbf: now() + 120 } }), 'The token is not valid yet.');
    expect((await list(await provider.token({ claims: { exp: now() - 10 } }))).status).toBe(200);
    expect((await list(await provider.token({ claims: { nbf: now() + 10 } }))).status).toBe(200);
  });

  it('is refused without an end', async () => {
    await expectRefusal(await provider.token({ without: ['exp'] }));
  });

  it('is refused from another issuer and for another audience', async () => {
    await expectRefusal(await provider.token({ claims: { iss: 'https://id.example.test.evil/' } }));
    await expectRefusal(await provider.token({ without: ['iss'] }));
    await expectRefusal(await provider.token({ claims: { aud: 'another-service' } }));
    await expectRefusal(await provider.token({ without: ['aud'] }));
  });

  it('is refused unsigned', async () => {
    const [, payload] = (await provider.token()).split('.');
    for (const alg of ['none', 'None', 'NONE']) {
      const header = Buffer.from(JSON.stringify({ alg, kid: 'first' })).toString('base64url');
      await expectRefusal(`${header}.${payload}.`);
    }
  });

  it('is refused when the public key served as the secret of an HMAC', async () => {
    const [key] = provider.keys;
    if (!key) throw new Error('The provider has no key');
    const pem = await exportSPKI(key.publicKey);
    for (const secret of [pem, JSON.stringify(key.publicJwk), key.publicJwk.n ?? '']) {
      const claims = { iss: provider.issuer, aud: provider.audience, sub: 'eve', tenant: 'demo', exp: now() + 300 };
      const forged = await new SignJWT({ ...claims, roles: ['admin'] })
        .setProtectedHeader({ alg: 'HS256', kid: key.kid })
        .sign(new TextEncoder().encode(secret));
      await expectRefusal(forged);
    }
  });

  it('is refused with a key that it brings along, or points to', async () => {
    const stranger = await makeKey('first');
    const jwk = stranger.publicJwk;
    await expectRefusal(await provider.token({ key: stranger, header: { jwk } }));
    await expectRefusal(await provider.token({ key: stranger, header: { jku: provider.jwksUri } }));
  });

  it('is refused with an unknown key id, and costs the provider one question for a while', async () => {
    const before = provider.fetches;
    for (let attempt = 0; attempt < 20; attempt += 1) {
      await expectRefusal(await provider.token({ header: { kid: `unknown-${attempt}` } }));
    }
    expect(provider.fetches - before).toBeLessThanOrEqual(1);
  });

  it('that names no key is tried against every one that fits', async () => {
    const others = await Promise.all(['RS256', 'RS256', 'ES256'].map((alg, i) => makeKey(`more-${i}`, alg)));
    // Set as no token names it, and one of them as it is written by providers that give their keys no name at all.
    const { kid: _kid, ...nameless } = others[1]?.publicJwk ?? {};
    const keys = [...provider.keys];
    provider.keys.push(...others.map((key, i) => (i === 1 ? { ...key, publicJwk: nameless } : key)));
    const isolated = await startTestApp({ env: provider.env });
    const ask = async (key: (typeof others)[0] | undefined) =>
      new ApiClient(isolated.baseUrl, await provider.token({ key, header: { kid: undefined } })).get('/v1/orders');
    for (const key of [keys[0], ...others]) expect((await ask(key)).status).toBe(200);
    expect((await ask(await makeKey('stranger'))).status).toBe(401);
    await isolated.close();
    provider.keys = keys;
  });

  it('is refused when its key is weak, or cannot be read, and other keys go on serving', async () => {
    const weak = await makeWeakKey('weak');
    const broken = { kty: 'EC', crv: 'P-256', x: 'AAAA', y: 'AAAA', kid: 'broken', alg: 'ES256' };
    const keys = [...provider.keys];
    provider.keys.push(weak, { ...(await makeKey('broken', 'ES256')), publicJwk: broken });
    const isolated = await startTestApp({ env: { ...provider.env, RATE_LIMIT: 'off' } });
    const ask = (token: string) => new ApiClient(isolated.baseUrl, token).get('/v1/orders');
    const claims = { iss: provider.issuer, aud: provider.audience, sub: 'ada', tenant: 'demo', exp: now() + 300 };
    expect((await ask(weak.sign({ alg: 'RS256', kid: 'weak' }, claims))).status).toBe(401);
    expect((await ask(weak.sign({ alg: 'RS256' }, claims))).status).toBe(401);
    expect((await ask(await provider.token({ key: provider.keys.at(-1) }))).status).toBe(401);
    expect((await ask(await provider.token())).status).toBe(200);
    await isolated.close();
    provider.keys = keys;
  });

  it('is refused when its type says that it is for something else', async () => {
    for (const typ of ['JWT', 'jwt', 'at+jwt', 'application/at+jwt', 'application/JWT']) {
      expect((await list(await provider.token({ header: { typ } }))).status).toBe(200);
    }
    for (const typ of ['logout+jwt', 'dpop+jwt', 'secevent+jwt', 'id+jwt', '']) {
      await expectRefusal(await provider.token({ header: { typ } }), 'The token is of another type than JWT.');
    }
    const [, payload, signature] = (await provider.token()).split('.');
    const odd = Buffer.from(JSON.stringify({ alg: 'RS256', kid: 'first', typ: 7 })).toString('base64url');
    await expectRefusal(`${odd}.${payload}.${signature}`);
  });

  it('is refused when it was altered', async () => {
    const [header, payload = '', signature] = (await provider.token()).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const altered = Buffer.from(JSON.stringify({ ...claims, roles: ['admin'] })).toString('base64url');
    await expectRefusal(`${header}.${altered}.${signature}`);
  });

  it('is refused when it is huge, before anybody looks into it', async () => {
    const huge = await provider.token({ claims: { groups: Array.from({ length: 800 }, (_, i) => `group-${i}`) } });
    expect(huge.length).toBeGreaterThan(8_192);
    await expectRefusal(huge, 'The token is longer than 8192 characters.');
  });

  it('is refused without a tenant, and for one that there is not, as if it were bad', async () => {
    const missing = 'The token names no subject or no tenant.';
    await expectRefusal(await provider.token({ without: ['tenant'] }), missing);
    await expectRefusal(await provider.token({ claims: { tenant: '' } }), missing);
    await expectRefusal(await provider.token({ claims: { tenant: "1'; --" } }), missing);
    await expectRefusal(await provider.token({ claims: { tenant: 'nobody' } }));
    await expectRefusal(await provider.token({ claims: { tenant: 999_999 } }));
  });

  it('is refused without a usable subject', async () => {
    await expectRefusal(await provider.token({ without: ['sub'] }));
    await expectRefusal(
      await provider.token({ claims: { sub: 'x'.repeat(300) } }),
      'The token names no subject or no tenant.',
    );
  });

  it('cannot be the system user, nor a service user', async () => {
    await expectRefusal(await provider.token({ claims: { sub: 'system', roles: ['admin'] } }));
    await expectRefusal(await provider.token({ claims: { sub: 'demo-admin', roles: ['admin'] } }));
  });

  it('grants neither the role system nor a role smuggled in with a comma', async () => {
    for (const roles of [['system'], ['viewer,admin'], ['viewer', 'system,admin'], 'viewer system']) {
      const client = new ApiClient(service.baseUrl, await provider.token({ claims: { roles, sub: 'smuggler' } }));
      expect((await client.get('/v1/users')).status).toBe(403);
      expect((await client.post('/v1/orders', orderBody())).status).toBe(403);
    }
    // Whoever may read reaches the database's own check of steps, to which roles go joined with commas.
    const { body: order } = await service.as('operator').post<{ id: string }>('/v1/orders', orderBody());
    const token = await provider.token({ claims: { roles: ['viewer', 'x,operator'], sub: 'smuggler' } });
    const step = { to: 'confirmed' };
    const moved = await new ApiClient(service.baseUrl, token).post(`/v1/orders/${order.id}/transitions`, step);
    expect(moved.status).toBe(403);
    const stored = await service.as('admin').get<{ data: { subject: string; roles: string[] }[] }>('/v1/users');
    expect(stored.body.data.find(({ subject }) => subject === 'smuggler')?.roles).toEqual([]);
  });

  it('makes its user on first sight, once, however many requests come at once', async () => {
    const tokens = await Promise.all(
      Array.from({ length: 24 }, (_, i) => provider.token({ claims: { sub: 'newcomer', jti: String(i) } })),
    );
    // All connections find nobody, and stand at the insert until the lock is gone.
    const answers = await withClient(service.database.superuserUrl, async (client) => {
      await client.query('BEGIN; LOCK TABLE waybill.users IN SHARE ROW EXCLUSIVE MODE');
      const asked = tokens.map((token) => list(token));
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      await client.query('COMMIT');
      return Promise.all(asked);
    });
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const users = await service.as('admin').get<{ data: { subject: string; kind: string }[] }>('/v1/users?limit=200');
    expect(users.body.data.filter(({ subject }) => subject === 'newcomer')).toMatchObject([{ kind: 'human' }]);
  });

  it('of a disabled user is refused, and good again when the user is enabled', async () => {
    const token = await provider.token({ claims: { sub: 'leaver', name: 'Lea Leaver' } });
    expect((await list(token)).status).toBe(200);
    const admin = service.as('admin');
    const { body } = await admin.get<{ data: { id: string; subject: string; displayName: string }[] }>('/v1/users');
    const leaver = body.data.find(({ subject }) => subject === 'leaver');
    expect(leaver?.displayName).toBe('Lea Leaver');
    expect((await admin.patch(`/v1/users/${leaver?.id}`, { disabled: true })).status).toBe(200);
    await expectRefusal(token);
    const fresh = await provider.token({ claims: { sub: 'leaver', jti: 'fresh' } });
    await expectRefusal(fresh);
    await admin.patch(`/v1/users/${leaver?.id}`, { disabled: false });
    const again = await provider.token({ claims: { sub: 'leaver', jti: 'again' } });
    expect((await list(again)).status).toBe(200);
  });
});

describe('the keys of the identity provider', () => {
  let provider: IdentityProvider;
  let service: TestApp;
  beforeAll(async () => {
    provider = await IdentityProvider.start();
    service = await startTestApp({ env: provider.env });
  });
  afterAll(async () => {
    await service.close();
    await provider.close();
  });
  const list = (token: string) => new ApiClient(service.baseUrl, token).get<ProblemAnswer>('/v1/orders');

  it('are not known while the provider has never been reached: 503, not 401', async () => {
    provider.outage = 500;
    const answer = await list(await provider.token());
    expect([answer.status, answer.body.code, answer.headers.get('retry-after')]).toEqual([503, 'unavailable', '2']);
    provider.outage = null;
  });

  it('rotate without a restart, and go on serving while the provider is away', async () => {
    const second = await startTestApp({ env: provider.env });
    const ask = (token: string) => new ApiClient(second.baseUrl, token).get<ProblemAnswer>('/v1/orders');
    const old = provider.keys[0];
    expect((await ask(await provider.token())).status).toBe(200);
    await provider.close();
    expect((await ask(await provider.token({ claims: { jti: 'while-away' } }))).status).toBe(200);
    await provider.rotate('second');
    const rotated = await provider.token();
    // The fetch before was just now; only after the pause between fetches is the new key asked for.
    expect((await ask(rotated)).status).toBe(401);
    await new Promise((resolve) => setTimeout(resolve, 10_500));
    const unreachable = await ask(await provider.token({ claims: { jti: 'unreachable' } }));
    expect([unreachable.status, unreachable.body.code]).toEqual([503, 'unavailable']);
    await provider.listen();
    await new Promise((resolve) => setTimeout(resolve, 10_500));
    // It names no key, so nothing but its signature says that there is a new one.
    expect((await ask(await provider.token({ header: { kid: undefined } }))).status).toBe(200);
    expect((await ask(await provider.token({ claims: { jti: 'back' } }))).status).toBe(200);
    expect((await ask(await provider.token({ key: old, claims: { jti: 'withdrawn' } }))).status).toBe(401);
    await second.close();
  });
});

describe('without an identity provider', () => {
  it('tokens are off', async () => {
    const provider = await IdentityProvider.start();
    const service = await startTestApp();
    const answer = await new ApiClient(service.baseUrl, await provider.token()).get('/v1/orders');
    expect(answer.status).toBe(401);
    expect(provider.fetches).toBe(0);
    await service.close();
    await provider.close();
  });
});
