import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Sealing, startSealing } from '../../support/audit.js';
import type { ProblemAnswer } from '../../support/builders.js';
import { move, place } from '../../support/orders.js';
import { rows } from '../../support/sql.js';

interface Told {
  type: string;
  version: number;
  actor: string;
  body: Record<string, unknown> & {
    keyDigest?: string;
    ruleVersion?: number;
    snapshot: Record<string, unknown> & { person: Record<string, string> | null };
    changes: Record<string, { old: unknown; new: unknown }> | null;
  };
}

/** By docs/idempotency.md. */
function operationKey(tenant: bigint, key: string): string {
  const number = Buffer.alloc(8);
  number.writeBigInt64BE(tenant);
  return createHash('sha256').update('waybill-key/v1\n').update(number).update(key).digest('hex');
}

describe('everything that changes has a history:', () => {
  let service: TestApp;
  let admin: ApiClient;
  let adminId: string;
  let sealing: Sealing;
  beforeAll(async () => {
    service = await startTestApp();
    admin = service.as('admin');
    sealing = await startSealing(service.database);
    const [found] = await rows<{ id: string }>(
      service.database.superuserUrl,
      `SELECT id FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-admin'`,
    );
    adminId = found?.id ?? '';
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  const told = async (stream: string, tenant = 1): Promise<Told[]> => {
    const events = await rows<Omit<Told, 'body'> & { body: string }>(
      service.database.superuserUrl,
      `SELECT type, version::int AS version, actor, body FROM audit.events WHERE tenant_id = $1 AND stream = $2 ORDER BY version`,
      [tenant, stream],
    );
    return events.map((event) => ({ ...event, body: JSON.parse(event.body) as Told['body'] }));
  };
  const makeUser = async (changes: object = {}) => {
    const body = { subject: randomUUID(), kind: 'service', displayName: 'Shop', roles: ['viewer'], ...changes };
    return (await admin.post<{ id: string }>('/v1/users', body)).body;
  };

  it('who gave whom a role, who disabled and enabled whom', async () => {
    const { id } = await makeUser();
    await admin.patch(`/v1/users/${id}`, { roles: ['viewer', 'admin'] });
    await admin.patch(`/v1/users/${id}`, { disabled: true });
    await admin.patch(`/v1/users/${id}`, { disabled: true });
    await admin.patch(`/v1/users/${id}`, { disabled: false, displayName: 'Shop 2' });
    const events = await told(`user/${id}`);
    expect(events.map(({ type, version }) => [type, version])).toEqual([
      ['user.created', 1],
      ['user.updated', 2],
      ['user.disabled', 3],
      ['user.enabled', 4],
    ]);
    expect(events[1]?.body.changes).toEqual({ roles: { old: ['viewer'], new: ['viewer', 'admin'] } });
    expect(events.every(({ actor }) => actor === adminId)).toBe(true);
  });

  it('a person by digests, which erasure takes the meaning of, and nothing else', async () => {
    const subject = `ada-${randomUUID()}`;
    const { id } = await makeUser({ kind: 'human', subject, displayName: 'Ada Example' });
    const key = randomUUID();
    const renamed = await admin.patch(`/v1/users/${id}`, { displayName: 'Ada Other' }, { 'idempotency-key': key });
    expect(renamed.status).toBe(200);
    const [user] = await rows<{ salt: Buffer }>(
      service.database.superuserUrl,
      'SELECT salt FROM waybill.users WHERE id = $1',
      [id],
    );
    const digest = (field: string, value: string) => {
      const lengthPrefixed = (text: string) => {
        const length = Buffer.alloc(4);
        length.writeInt32BE(Buffer.byteLength(text));
        return Buffer.concat([length, Buffer.from(text)]);
      };
      const parts = [Buffer.from('waybill-pii/v1\n'), user?.salt ?? Buffer.alloc(0)];
      return createHash('sha256')
        .update(Buffer.concat([...parts, lengthPrefixed(field), lengthPrefixed(value)]))
        .digest('hex');
    };
    const before = await told(`user/${id}`);
    expect(before.map(({ body }) => body.snapshot.person)).toEqual([
      { subject: digest('subject', subject), displayName: digest('displayName', 'Ada Example') },
      { subject: digest('subject', subject), displayName: digest('displayName', 'Ada Other') },
    ]);
    expect(JSON.stringify(before)).not.toMatch(/Ada|ada-/);

    for (let time = 0; time < 2; time += 1) {
      const erased = await admin.post(`/v1/users/${id}/erasure`, undefined);
      expect([erased.status, erased.body]).toEqual([
        200,
        expect.objectContaining({
          id,
          erased: true,
          subject: expect.stringMatching(/^erased:/),
          displayName: 'erased',
          disabledAt: expect.any(String),
        }),
      ]);
    }
    const after = await told(`user/${id}`);
    expect(after.map(({ type }) => type)).toEqual(['user.created', 'user.updated', 'user.erased']);
    expect(after[2]?.body.snapshot.person).toBeNull();
    const again = await admin.patch<ProblemAnswer>(
      `/v1/users/${id}`,
      { displayName: 'Ada Other' },
      { 'idempotency-key': key },
    );
    expect([again.status, again.body.code]).toEqual([410, 'answer-erased']);
    expect((await admin.patch(`/v1/users/${id}`, { disabled: false })).status).toBe(403);
    expect((await admin.post('/v1/api-keys', { userId: id, name: 'x' })).status).toBe(422);
    await sealing.seal();
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact' });
  });

  it('only a person is erased, and nobody erases himself', async () => {
    const shop = await makeUser();
    const refused = await admin.post<ProblemAnswer>(`/v1/users/${shop.id}/erasure`, undefined);
    expect([refused.status, refused.body.code]).toEqual([403, 'forbidden']);
    const self = await admin.post<ProblemAnswer>(`/v1/users/${adminId}/erasure`, undefined);
    expect([self.status, self.body.code]).toEqual([409, 'would-lock-out']);
  });

  it('API keys, by their hash; when one was last used is no change', async () => {
    const { id: userId } = await makeUser();
    const made = await admin.post<{ id: string; secret: string }>('/v1/api-keys', { userId, name: 'shop' });
    await rows(
      service.database.superuserUrl,
      `SELECT waybill.set_context(1, '${adminId}', '{admin}', 'used'); UPDATE waybill.api_keys SET last_used_at = now() WHERE id = '${made.body.id}'`,
    );
    await admin.send('DELETE', `/v1/api-keys/${made.body.id}`);
    const events = await told(`api_key/${made.body.id}`);
    expect(events.map(({ type }) => type)).toEqual(['api_key.created', 'api_key.revoked']);
    const hash = createHash('sha256').update(made.body.secret).digest('hex');
    expect(events[0]?.body.snapshot).toMatchObject({ userId, hash });
    expect(JSON.stringify(events)).not.toContain(made.body.secret.slice(-43));
  });

  it('which rule was in force when an order moved, in the tenant’s own log', async () => {
    const rulesOf = async (tenant: number) => {
      const [row] = await rows<{ stream: string }>(
        service.database.superuserUrl,
        `SELECT 'workflow/' || id AS stream FROM waybill.workflow_rules WHERE tenant_id = $1 AND machine = 'order'`,
        [tenant],
      );
      return told(row?.stream ?? '', tenant);
    };
    const versionOfStep = async () => {
      const { id } = await place(service.as('operator'));
      await move(service.as('operator'), id, 'confirmed');
      return (await told(`order/${id}`)).map(({ body }) => body.ruleVersion);
    };
    expect(await versionOfStep()).toEqual([undefined, 1]);
    const change = `UPDATE waybill.valid_transitions SET requires_reason = true WHERE machine = 'order' AND to_state = 'delivered'`;
    await rows(service.database.ownerUrl, change);
    await rows(
      service.database.ownerUrl,
      `UPDATE waybill.valid_transitions SET roles = '{operator,admin,clerk}' WHERE machine = 'order' AND to_state = 'confirmed'`,
    );
    // The same once more changes nothing.
    await rows(service.database.ownerUrl, change);
    for (const tenant of [1, 2]) {
      const events = await rulesOf(tenant);
      expect(events.map(({ body }) => body.snapshot.ruleVersion)).toEqual([1, 2, 3]);
      const rules = events[2]?.body.snapshot.rules as { to: string; ruleVersion: number }[];
      expect(Object.fromEntries(rules.map(({ to, ruleVersion }) => [to, ruleVersion]))).toMatchObject({
        shipped: 1,
        delivered: 2,
        confirmed: 3,
      });
    }
    expect(await versionOfStep()).toEqual([undefined, 3]);
  });

  it('under which key, which nothing but its digest tells', async () => {
    const key = randomUUID();
    const { id } = await place(service.as('operator'));
    await service.as('operator').post(`/v1/orders/${id}/transitions`, { to: 'confirmed' }, { 'idempotency-key': key });
    const events = await told(`order/${id}`);
    expect(events[1]?.body.keyDigest).toBe(operationKey(1n, key));
    expect(JSON.stringify(events)).not.toContain(key);
  });

  it('the feed shows those of users, keys and policies to auditors and administrators alone', async () => {
    const kinds = async (role: string) => {
      const { body } = await service.as(role).get<{ data: { stream: string }[] }>('/v1/audit/events?limit=200');
      return new Set(body.data.map(({ stream }) => stream.split('/')[0]));
    };
    await sealing.seal();
    for (const role of ['auditor', 'admin']) expect(await kinds(role)).toContain('api_key');
    for (const role of ['viewer', 'operator']) {
      const seen = await kinds(role);
      expect(seen).toContain('order');
      expect([...seen]).not.toEqual(expect.arrayContaining([expect.stringMatching(/user|api_key|policy/)]));
      const hidden = await service.as(role).get(`/v1/audit/receipt?stream=user/${adminId}&version=1`);
      expect(hidden.status).toBe(404);
    }
  });

  it.each([
    [
      'a role that nobody gave',
      `UPDATE waybill.users SET roles = '{admin}' WHERE tenant_id = 1 AND subject = 'demo-viewer'`,
    ],
    [
      'another secret in place of a key',
      `UPDATE waybill.api_keys SET hash = sha256('x') WHERE tenant_id = 1 AND revoked_at IS NULL`,
    ],
    [
      'a key that nobody made',
      `INSERT INTO waybill.api_keys (tenant_id, id, user_id, prefix, hash) SELECT 1, gen_random_uuid(), id, '0123456789ab', sha256('y') FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-admin'`,
    ],
    [
      'a user that is gone',
      `DELETE FROM waybill.api_keys WHERE tenant_id = 1; DELETE FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-auditor'`,
    ],
    [
      'rules that a tenant’s log does not have',
      `UPDATE waybill.workflow_rules SET rules = '[]' WHERE tenant_id = 1 AND machine = 'order'`,
    ],
  ])('verification names %s', async (_what, statement) => {
    await sealing.seal();
    const [result] = await sealing.verifyTampered(statement, {});
    expect(result).toMatchObject({
      verdict: 'tampered',
      fault: { code: expect.stringMatching(/^(STATE_DRIFT|MISSING_STREAM)$/) },
    });
  });
});
