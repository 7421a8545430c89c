import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Pool } from 'pg';
import type { KillPoint } from '../../../src/database/index.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';
import { CrashStage } from '../../support/crash-stage.js';
import { rows } from '../../support/sql.js';

interface MadeKey {
  id: string;
  secret: string | null;
  secretShown: boolean;
}

describe('making an API key under an idempotency key', () => {
  let service: TestApp;
  let superuser: Pool;
  let userId: string;
  beforeAll(async () => {
    service = await startTestApp();
    superuser = new Pool({ connectionString: service.database.superuserUrl });
    const body = { subject: 'shop', kind: 'service', displayName: 'Shop', roles: ['viewer'] };
    userId = (await service.as('admin').post<{ id: string }>('/v1/users', body)).body.id;
  });
  afterAll(async () => {
    await superuser.end();
    await service.close();
  });

  const make = (key: string, name: string) =>
    service.as('admin').post<MadeKey & ProblemAnswer>('/v1/api-keys', { userId, name }, { 'idempotency-key': key });
  const madeWith = async (name: string): Promise<number> => {
    const found = await rows(service.database.superuserUrl, 'SELECT FROM waybill.api_keys WHERE name = $1', [name]);
    return found.length;
  };

  it('makes one for twenty requests at once, and shows its secret to one of them', async () => {
    const key = randomUUID();
    const answers = await Promise.all(Array.from({ length: 20 }, () => make(key, 'parallel')));
    const made = answers.filter(({ status }) => status === 201);
    const others = answers.filter(({ status }) => status !== 201);
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1);
    expect(made.filter(({ body }) => body.secret !== null)).toHaveLength(1);
    expect(others.map(({ body }) => body.code)).toEqual(others.map(() => 'idempotency-key-in-flight'));
    expect(await madeWith('parallel')).toBe(1);
  });

  it('tells a retry which one was made, without the secret, which is stored nowhere', async () => {
    const key = randomUUID();
    const first = await make(key, 'retried');
    expect([first.status, first.body.secretShown]).toEqual([201, false]);
    const { secret } = first.body;
    expect((await new ApiClient(service.baseUrl, secret ?? '').get('/v1/orders')).status).toBe(200);
    const retry = await make(key, 'retried');
    expect([retry.status, retry.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect(retry.body).toEqual({ ...first.body, secret: null, secretShown: true });
    expect(retry.headers.get('location')).toBe(first.headers.get('location'));
    for (const { headers } of [first, retry]) expect(headers.get('cache-control')).toBe('no-store');
    const [stored] = await rows<{ body: string }>(
      service.database.superuserUrl,
      `SELECT convert_from(response_body, 'UTF8') AS body FROM waybill.idempotency_keys WHERE idempotency_key = $1`,
      [key],
    );
    expect(stored?.body).toContain(first.body.id);
    expect(stored?.body).not.toContain(secret?.slice(-43));
  });

  it.each<[KillPoint, boolean]>([
    ['write.after', false],
    ['commit.before', false],
    ['commit.after', true],
  ])('makes one when its process dies at %s, and the retry says what there is', async (point, isCommitted) => {
    const stage = new CrashStage(superuser);
    const key = randomUUID();
    const name = `died at ${point}`;
    const crashed = stage.arm({ name, point, occurrence: 1 });
    const lost = make(key, name).catch((error: unknown) => error);
    try {
      await crashed;
      expect(await madeWith(name)).toBe(isCommitted ? 1 : 0);
      const { status, body } = await make(key, name);
      expect([status, body.secretShown, body.secret === null]).toEqual([201, isCommitted, isCommitted]);
      expect(await madeWith(name)).toBe(1);
    } finally {
      stage.close();
      await lost;
    }
  });
});
