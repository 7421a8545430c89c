import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { KeyUseRecorder } from '../../../src/identity/key-use-recorder.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody, type ProblemAnswer } from '../../support/builders.js';
import { inTransaction, refusalOf, rows } from '../../support/sql.js';

interface User {
  id: string;
  subject: string;
  kind: string;
  roles: string[];
  disabledAt: string | null;
}
interface Key {
  id: string;
  userId: string;
  name: string;
  prefix: string;
  secret: string;
  secretShown: boolean;
  expiresAt: string | null;
  revokedAt: string | null;
  lastUsedAt: string | null;
}
interface List<T> {
  data: T[];
  next: string | null;
}

describe('administration of users and API keys', () => {
  let service: TestApp;
  let admin: ApiClient;
  beforeAll(async () => {
    service = await startTestApp();
    admin = service.as('admin');
  });
  afterAll(() => service.close());

  const makeUser = async (roles: string[], changes: object = {}): Promise<User> => {
    const body = { subject: `user-${randomUUID()}`, kind: 'service', displayName: 'Somebody', roles, ...changes };
    const answer = await admin.post<User>('/v1/users', body);
    expect(answer.status).toBe(201);
    return answer.body;
  };
  const makeKey = async (userId: string, changes: object = {}): Promise<Key> => {
    const answer = await admin.post<Key>('/v1/api-keys', { userId, name: 'a key', ...changes });
    expect(answer.status).toBe(201);
    return answer.body;
  };
  const makeClient = async (roles: string[]) => {
    const user = await makeUser(roles);
    const key = await makeKey(user.id);
    return { user, key, client: new ApiClient(service.baseUrl, key.secret) };
  };
  const usersOfRole = async (role: string) => {
    const { body } = await admin.get<List<User>>('/v1/users?limit=200');
    return body.data.find(({ subject }) => subject === `demo-${role}`);
  };

  it('makes a user, and a key that is shown once and works at once', async () => {
    const user = await makeUser(['operator']);
    const answer = await admin.post<Key>('/v1/api-keys', { userId: user.id, name: 'shop' });
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`/v1/api-keys/${answer.body.id}`);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const { secret, secretShown: _secretShown, ...shown } = answer.body;
    expect(secret.startsWith(`${shown.prefix}_`)).toBe(true);
    expect((await new ApiClient(service.baseUrl, secret).post('/v1/orders', orderBody())).status).toBe(201);
    const again = await admin.get<Key>(`/v1/api-keys/${shown.id}`);
    expect(again.body).toEqual({ ...shown, lastUsedAt: null });
  });

  it('never shows a secret or a hash, and stores no secret', async () => {
    const { key, user } = await makeClient(['viewer']);
    const secret = key.secret.slice(`${key.prefix}_`.length);
    expect(secret).toHaveLength(43);
    const texts = [
      await admin.get('/v1/api-keys?limit=200'),
      await admin.get(`/v1/api-keys/${key.id}`),
      await admin.get(`/v1/api-keys?userId=${user.id}`),
    ].map(({ text }) => text);
    expect(texts.join('\n')).not.toContain(secret);
    expect(texts.join('\n')).not.toMatch(/hash/i);
    const stored = await rows<{ row: string }>(
      service.database.superuserUrl,
      `SELECT k::text || encode(k.hash, 'base64') AS row FROM waybill.api_keys k WHERE id = $1`,
      [key.id],
    );
    expect(stored[0]?.row).not.toContain(secret);
  });

  it('lists in pages, newest first, with exact cursors', async () => {
    const user = await makeUser(['viewer']);
    const made: string[] = [];
    for (let i = 0; i < 5; i += 1) made.push((await makeKey(user.id, { name: `key ${i}` })).id);
    const seen: string[] = [];
    let path: string | null = `/v1/api-keys?userId=${user.id}&limit=2`;
    let pages = 0;
    while (path) {
      const page: { body: List<Key>; headers: Headers } = await admin.get<List<Key>>(path);
      seen.push(...page.body.data.map(({ id }) => id));
      path = page.body.next && `/v1/api-keys?userId=${user.id}&limit=2&cursor=${page.body.next}`;
      expect(page.headers.get('link') !== null).toBe(path !== null);
      pages += 1;
    }
    expect(seen).toEqual(made.toReversed());
    expect(pages).toBe(3);
    const foreign = await admin.get<List<Key>>('/v1/api-keys?limit=1');
    const mixed = await admin.get<ProblemAnswer>(`/v1/api-keys?userId=${user.id}&cursor=${foreign.body.next}`);
    expect([mixed.status, mixed.body.code]).toEqual([400, 'invalid-cursor']);
    const users = await admin.get<List<User>>('/v1/users?limit=1');
    const next = await admin.get<List<User>>(`/v1/users?limit=1&cursor=${users.body.next}`);
    expect(next.body.data[0]?.id).not.toBe(users.body.data[0]?.id);
  });

  it('revokes a key for good, at once in this process', async () => {
    const { key, client } = await makeClient(['viewer']);
    expect((await client.get('/v1/orders')).status).toBe(200);
    expect((await admin.send('DELETE', `/v1/api-keys/${key.id}`)).status).toBe(204);
    expect((await client.get('/v1/orders')).status).toBe(401);
    expect((await admin.send('DELETE', `/v1/api-keys/${key.id}`)).status).toBe(204);
    const refused = await refusalOf(
      rows(
        service.database.ownerUrl,
        `BEGIN; SELECT waybill.set_context(1, '${key.userId}', '{admin}', 'sql');
        UPDATE waybill.api_keys SET revoked_at = NULL WHERE tenant_id = 1 AND id = '${key.id}'`,
      ),
    );
    expect(refused.code).toBe('WB002');
  });

  it('never accepts a revoked key again, also when it is used all the while', async () => {
    const { key, client } = await makeClient(['viewer']);
    let revoked = false;
    const after: number[] = [];
    const hammer = Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 40; i += 1) {
        const startedAfter = revoked;
        const { status } = await client.get('/v1/workflows');
        if (startedAfter) after.push(status);
      }
    });
    await admin.send('DELETE', `/v1/api-keys/${key.id}`);
    revoked = true;
    await Promise.all(hammer);
    expect(new Set(after)).toEqual(new Set([401]));
  });

  it('lets a key expire to the moment, although it is cached', async () => {
    const user = await makeUser(['viewer']);
    const expiresAt = new Date(Date.now() + 6_000).toISOString();
    const key = await makeKey(user.id, { expiresAt });
    const client = new ApiClient(service.baseUrl, key.secret);
    expect((await client.get('/v1/workflows')).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, Date.parse(expiresAt) - Date.now() + 20));
    expect((await client.get('/v1/workflows')).status).toBe(401);
    const past = await admin.post<ProblemAnswer>('/v1/api-keys', { userId: user.id, name: 'x', expiresAt });
    expect([past.status, past.body.errors?.[0]?.pointer]).toEqual([422, '/expiresAt']);
  });

  it('changes what a user may do at once in this process', async () => {
    const { user, client } = await makeClient(['viewer']);
    expect((await client.post('/v1/orders', orderBody())).status).toBe(403);
    expect((await admin.patch<User>(`/v1/users/${user.id}`, { roles: ['operator'] })).body.roles).toEqual(['operator']);
    expect((await client.post('/v1/orders', orderBody())).status).toBe(201);
    expect((await admin.patch(`/v1/users/${user.id}`, { disabled: true })).status).toBe(200);
    expect((await client.get('/v1/orders')).status).toBe(401);
    const key = await admin.post<ProblemAnswer>('/v1/api-keys', { userId: user.id, name: 'late' });
    expect([key.status, key.body.errors?.[0]?.pointer]).toEqual([422, '/userId']);
    const enabled = await admin.patch<User>(`/v1/users/${user.id}`, { disabled: false });
    expect(enabled.body.disabledAt).toBeNull();
    expect((await client.get('/v1/orders')).status).toBe(200);
  });

  it('refuses a second user of one subject and names the first', async () => {
    const user = await makeUser(['viewer']);
    const body = { subject: user.subject, kind: 'human', displayName: 'Twin', roles: [] };
    const again = await admin.post<ProblemAnswer>('/v1/users', body);
    expect([again.status, again.body.code, again.body.userId]).toEqual([409, 'subject-taken', user.id]);
  });

  it('keeps an administrator from locking himself out', async () => {
    const { user, key, client } = await makeClient(['admin']);
    const own = `/v1/users/${user.id}`;
    for (const change of [{ disabled: true }, { roles: ['viewer'] }, { roles: [] }]) {
      const answer = await client.patch<ProblemAnswer>(own, change);
      expect([answer.status, answer.body.code]).toEqual([409, 'would-lock-out']);
    }
    const revoked = await client.send<ProblemAnswer>('DELETE', `/v1/api-keys/${key.id}`);
    expect([revoked.status, revoked.body.code]).toEqual([409, 'would-lock-out']);
    expect((await client.patch(own, { displayName: 'Still here', roles: ['admin', 'auditor'] })).status).toBe(200);
    expect((await client.get('/v1/users')).status).toBe(200);
  });

  it('leaves one of two administrators that disable each other at the same moment', async () => {
    for (let round = 0; round < 8; round += 1) {
      const [a, b] = [await makeClient(['admin']), await makeClient(['admin'])];
      const answers = await Promise.all([
        a.client.patch(`/v1/users/${b.user.id}`, { disabled: true }),
        b.client.patch(`/v1/users/${a.user.id}`, { disabled: true }),
      ]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 401]);
    }
  });

  it.each([['system'], ['viewr'], ['viewer,admin'], ['Admin']])('gives no role %s', async (role) => {
    const body = { subject: randomUUID(), kind: 'service', displayName: 'X', roles: [role] };
    const made = await admin.post<ProblemAnswer>('/v1/users', body);
    expect([made.status, made.body.code]).toEqual([422, 'validation-failed']);
    const user = await makeUser(['viewer']);
    expect((await admin.patch(`/v1/users/${user.id}`, { roles: [role] })).status).toBe(422);
  });

  it('has the database refuse what the service would not send', async () => {
    const actor = (await usersOfRole('admin'))?.id ?? '';
    const call = (role: string, text: string) =>
      refusalOf(
        inTransaction(service.database.appUrl, { tenant: 1, actor, roles: [role] }, (client) => client.query(text)),
      );
    const create = (kind: string, roles: string) =>
      `SELECT * FROM waybill.create_user(1, gen_random_uuid(), 'intruder', '${kind}', 'Intruder', '${roles}')`;
    expect((await call('admin', create('service', '{system}'))).code).toBe('23514');
    expect((await call('admin', create('service', '{"viewer,admin "}'))).code).toBe('23514');
    expect((await call('admin', create('system', '{system}'))).code).toBe('23505');
    const key = `'000000000000', decode(repeat('00', 32), 'hex'), 'back door', NULL`;
    for (const text of [
      create('service', '{admin}'),
      `SELECT * FROM waybill.change_user(1, '${actor}', NULL, '{admin}', NULL)`,
      `SELECT * FROM waybill.create_api_key(1, gen_random_uuid(), '${actor}', ${key})`,
      `SELECT * FROM waybill.revoke_api_key(1, gen_random_uuid())`,
    ]) {
      for (const role of ['viewer', 'operator', 'auditor', 'administrator']) {
        expect([text, (await call(role, text)).code]).toEqual([text, 'WB013']);
      }
    }
    const { system } = await inTransaction(
      service.database.appUrl,
      { tenant: 1, actor, roles: ['admin'] },
      async (client) => {
        const find = `SELECT id FROM waybill.users WHERE kind = 'system'`;
        const { rows: found } = await client.query<{ id: string }>(find);
        return { system: found[0]?.id };
      },
    );
    const unchanged = await inTransaction(
      service.database.appUrl,
      { tenant: 1, actor, roles: ['admin'] },
      async (client) => [
        (await client.query(`SELECT * FROM waybill.change_user(1, '${system}', 'X', NULL, true)`)).rowCount,
        (await client.query(`SELECT * FROM waybill.create_api_key(1, gen_random_uuid(), '${system}', ${key})`))
          .rowCount,
      ],
    );
    expect(unchanged).toEqual([0, 0]);
  });

  it('has the database ask the row of who acts, not only the roles that somebody claims', async () => {
    const create = `SELECT * FROM waybill.create_user(1, gen_random_uuid(), 'intruder', 'service', 'Intruder', '{admin}')`;
    const disabled = await makeUser(['admin']);
    await admin.patch(`/v1/users/${disabled.id}`, { disabled: true });
    const pretenders = [randomUUID(), (await makeUser(['operator'])).id, disabled.id];
    for (const actor of pretenders) {
      const attempt = inTransaction(service.database.appUrl, { tenant: 1, actor, roles: ['admin'] }, (client) =>
        client.query(create),
      );
      expect((await refusalOf(attempt)).code).toBe('WB013');
    }
  });

  it('leaves the system user alone', async () => {
    const { body } = await admin.get<List<User>>('/v1/users?limit=200');
    const system = body.data.find(({ kind }) => kind === 'system');
    const patched = await admin.patch<ProblemAnswer>(`/v1/users/${system?.id}`, { disabled: true });
    const key = await admin.post<ProblemAnswer>('/v1/api-keys', { userId: system?.id, name: 'back door' });
    expect([patched.status, key.status]).toEqual([403, 403]);
  });

  it('gives a role that only an extension names', async () => {
    await rows(
      service.database.ownerUrl,
      `INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles)
       VALUES ('order', 'delivered', 'confirmed', '{warehouse}')`,
    );
    expect((await makeUser(['viewer', 'warehouse'])).roles).toEqual(['viewer', 'warehouse']);
  });

  it('records the last use of a key without a write a request, and never backwards', async () => {
    const { key, client } = await makeClient(['viewer']);
    const lastUse = async () => (await admin.get<Key>(`/v1/api-keys/${key.id}`)).body.lastUsedAt;
    const before = Date.now();
    for (let i = 0; i < 5; i += 1) await client.get('/v1/workflows');
    expect(await lastUse()).toBeNull();
    const recorder = service.app.get(KeyUseRecorder, { strict: false });
    await recorder.flush();
    const recorded = Date.parse((await lastUse()) ?? '');
    expect(recorded).toBeGreaterThanOrEqual(before);
    const principal = { tenantId: 1, userId: key.userId, roles: [] };
    recorder.note({ principal, keyId: key.id, expiresAt: Infinity }, before - 60_000);
    await recorder.flush();
    expect(Date.parse((await lastUse()) ?? '')).toBe(recorded);
  });

  it('records the last use when it stops', async () => {
    const second = await startTestApp();
    await second.as('auditor').get('/v1/workflows');
    await second.app.close();
    const [used] = await rows<{ count: number }>(
      second.database.superuserUrl,
      'SELECT count(*)::int AS count FROM waybill.api_keys WHERE last_used_at IS NOT NULL',
    );
    expect(used?.count).toBe(1);
    await second.database.drop();
  });
});
