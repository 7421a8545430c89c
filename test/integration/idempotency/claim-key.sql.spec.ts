import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { startTestApp, type TestApp } from '../../support/app.js';
import { actorOf, enter, refusalOf, rows, withClient } from '../../support/sql.js';
import { untilGone, untilLocked } from '../../support/waiting.js';

/* The rules of a key's life, on the functions themselves: as the app role, with several connections. */

interface Claim {
  outcome: string;
  retry_after: number | null;
  answer_status: number | null;
  answer_body: Buffer | null;
}

interface ClaimOptions {
  tenant?: number;
  request?: string;
  lease?: { token: string; time: string };
}

let service: TestApp;
let actor: string;
const clients: Client[] = [];
beforeAll(async () => {
  service = await startTestApp();
  actor = await actorOf(service, 'operator');
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.end()));
  await service.close();
});

async function connect(): Promise<Client> {
  const client = new Client({ connectionString: service.database.appUrl });
  await client.connect();
  clients.push(client);
  return client;
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();

async function claim(client: Client, key: string, { tenant = 1, request = 'r', lease }: ClaimOptions = {}) {
  const result = await client.query<Claim>(
    `SELECT outcome, retry_after, answer_status, answer_body FROM waybill.claim_key($1, $2, '{operator}', 'sql', $3, $4, $5, $6)`,
    [tenant, actor, key, hash(request), lease?.token ?? null, lease?.time ?? null],
  );
  const [row] = result.rows;
  if (!row) throw new Error('claim_key returned no row');
  return row;
}

async function complete(client: Client, key: string, token: string | null = null, ttl: string | null = '1 hour') {
  const headers = { 'content-type': 'application/json' };
  await client.query(`SELECT waybill.complete_key(1, $1, $2, $3, 201::smallint, $4, $5, NULL, $6)`, [
    key,
    token === null ? hash('r') : null,
    token,
    headers,
    Buffer.from('{}'),
    ttl,
  ]);
}

/** Claims in a transaction of its own and commits it. */
async function claimAlone(client: Client, key: string, options?: ClaimOptions): Promise<Claim> {
  await client.query('BEGIN');
  const found = await claim(client, key, options);
  await client.query('COMMIT');
  return found;
}

async function storeAnswer(client: Client, key: string, ttl: string | null = '1 hour'): Promise<void> {
  await client.query('BEGIN');
  expect((await claim(client, key)).outcome).toBe('claimed');
  await complete(client, key, null, ttl);
  await client.query('COMMIT');
}

describe('a claim', () => {
  it('is in flight for others until the claiming transaction ends, without waiting for it', async () => {
    const [a, b] = [await connect(), await connect()];
    const key = randomUUID();
    await a.query('BEGIN');
    expect((await claim(a, key)).outcome).toBe('claimed');
    await b.query(`SET lock_timeout = '200ms'`);
    expect((await claimAlone(b, key)).outcome).toBe('in_flight');
    await complete(a, key);
    await a.query('COMMIT');
    expect(await claimAlone(b, key)).toMatchObject({ outcome: 'replay', answer_status: 201 });
    expect((await claimAlone(b, key, { request: 'other' })).outcome).toBe('reused');
  });

  it('that was rolled back leaves nothing', async () => {
    const [a, b] = [await connect(), await connect()];
    const key = randomUUID();
    await a.query('BEGIN');
    await claim(a, key);
    await a.query('ROLLBACK');
    expect((await claimAlone(b, key)).outcome).toBe('claimed');
  });

  it('of a row that somebody left processing without a lease is anyone’s: nothing can get stuck', async () => {
    const a = await connect();
    const key = randomUUID();
    await claimAlone(a, key);
    expect((await claimAlone(a, key)).outcome).toBe('claimed');
  });

  it('of an expired row takes it anew, for any request, and its answer is gone', async () => {
    const a = await connect();
    const key = randomUUID();
    await storeAnswer(a, key, '1 millisecond');
    await sleep(20);
    await a.query('BEGIN');
    expect((await claim(a, key, { request: 'other' })).outcome).toBe('claimed');
    const found = await a.query('SELECT FROM waybill.idempotency_keys WHERE tenant_id = 1 AND idempotency_key = $1', [
      key,
    ]);
    expect(found.rows).toEqual([]);
    const b = await connect();
    expect((await claimAlone(b, key)).outcome).toBe('in_flight');
    await a.query('ROLLBACK');
    expect((await claimAlone(b, key)).outcome).toBe('claimed');
  });

  it('of an expired row that is being swept waits for the sweeper and inserts again', async () => {
    const a = await connect();
    const key = randomUUID();
    await storeAnswer(a, key, '1 millisecond');
    await sleep(20);
    const sweeper = new Client({ connectionString: service.database.superuserUrl });
    await sweeper.connect();
    clients.push(sweeper);
    await sweeper.query('BEGIN');
    await enter(sweeper, { tenant: 1, actor });
    await sweeper.query('DELETE FROM waybill.idempotency_keys WHERE tenant_id = 1 AND idempotency_key = $1', [key]);
    const waiting = claimAlone(a, key);
    await untilLocked(service.database.superuserUrl);
    await sweeper.query('COMMIT');
    expect((await waiting).outcome).toBe('claimed');
  });

  it('sees no row of another tenant', async () => {
    const a = await connect();
    const key = randomUUID();
    await storeAnswer(a, key);
    expect((await claimAlone(a, key, { tenant: 2 })).outcome).toBe('claimed');
  });
});

describe('a lease, for work that goes on after the first COMMIT', () => {
  const lease = (time = '1 minute') => ({ token: randomUUID(), time });

  it('keeps the key to its worker: others are told how long, and another request is refused at once', async () => {
    const a = await connect();
    const key = randomUUID();
    expect((await claimAlone(a, key, { lease: lease('90 seconds') })).outcome).toBe('claimed');
    const found = await claimAlone(a, key, { lease: lease() });
    expect(found.outcome).toBe('in_flight');
    expect(found.retry_after).toBeGreaterThan(85);
    expect((await claimAlone(a, key, { request: 'other', lease: lease() })).outcome).toBe('reused');
  });

  it('that has lapsed is taken over once, and the first worker can complete nothing any more', async () => {
    const [a, b] = [await connect(), await connect()];
    const key = randomUUID();
    const [first, second] = [lease('10 milliseconds'), lease()];
    await claimAlone(a, key, { lease: first });
    await sleep(30);
    expect((await claimAlone(b, key)).outcome).toBe('in_flight');
    const [x, y] = await Promise.all([claimAlone(a, key, { lease: second }), claimAlone(b, key, { lease: second })]);
    expect([x.outcome, y.outcome].toSorted()).toEqual(['in_flight', 'taken_over']);
    await enterAlone(a, () => refusalOf(complete(a, key, first.token))).then(({ code }) => expect(code).toBe('WB020'));
    await enterAlone(a, () => refusalOf(complete(a, key))).then(({ code }) => expect(code).toBe('WB020'));
    await enterAlone(a, () => complete(a, key, second.token));
    expect((await claimAlone(a, key)).outcome).toBe('replay');
    const [row] = await rows(
      service.database.superuserUrl,
      'SELECT attempt, lease_token, lease_until, status FROM waybill.idempotency_keys WHERE idempotency_key = $1',
      [key],
    );
    expect(row).toEqual({ attempt: 2, lease_token: null, lease_until: null, status: 'completed' });
  });

  it('is never swept, however old', async () => {
    const a = await connect();
    const key = randomUUID();
    await claimAlone(a, key, { lease: lease('1 millisecond') });
    await sleep(20);
    await a.query('SELECT waybill.sweep_keys(1, 10000)');
    expect((await claimAlone(a, key, { request: 'other' })).outcome).toBe('reused');
    const superuser = new Client({ connectionString: service.database.superuserUrl });
    await superuser.connect();
    clients.push(superuser);
    await superuser.query('BEGIN');
    await enter(superuser, { tenant: 1, actor });
    const refusal = await refusalOf(
      superuser.query('DELETE FROM waybill.idempotency_keys WHERE tenant_id = 1 AND idempotency_key = $1', [key]),
    );
    expect(refusal.code).toBe('WB002');
  });

  async function enterAlone<T>(client: Client, work: () => Promise<T>): Promise<T> {
    await client.query('BEGIN');
    await enter(client, { tenant: 1, actor });
    const result = await work();
    await client.query('COMMIT');
    return result;
  }
});

describe('on a table that nobody has analyzed yet', () => {
  it('claiming, completing and replaying read by the primary key, and no other row', async () => {
    const fresh = await startTestApp();
    await fresh.app.close();
    const { superuserUrl, appUrl } = fresh.database;
    await rows(superuserUrl, 'ALTER TABLE waybill.idempotency_keys SET (autovacuum_enabled = false)');
    await withClient(appUrl, async (client) => {
      for (let index = 0; index < 200; index += 1) await storeAnswer(client, `key-${index}`);
      for (let index = 0; index < 200; index += 1) await claimAlone(client, `key-${index}`);
    });
    // A session tells its figures when it ends.
    await untilGone(superuserUrl, 'waybill_app');
    const [read] = await rows<{ other: number; primary: number; sequential: number }>(
      superuserUrl,
      `SELECT (SELECT idx_tup_read::int FROM pg_stat_user_indexes WHERE indexrelname = 'idempotency_keys_expires_idx') AS other,
              (SELECT idx_tup_read::int FROM pg_stat_user_indexes WHERE indexrelname = 'idempotency_keys_pkey') AS primary,
              (SELECT seq_tup_read::int FROM pg_stat_user_tables WHERE relname = 'idempotency_keys') AS sequential`,
    );
    await fresh.database.drop();
    expect(read).toMatchObject({ other: 0, sequential: 0 });
    // A few for each statement, instead of hundreds.
    expect(read?.primary).toBeLessThan(200 * 8);
  });
});

describe('the table', () => {
  it.each([
    [
      'INSERT',
      `INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, created_at) VALUES (1, 'x', sha256(''), 'processing', now())`,
    ],
    ['UPDATE', `UPDATE waybill.idempotency_keys SET response_body = 'x' WHERE tenant_id = 1`],
    ['DELETE', `DELETE FROM waybill.idempotency_keys WHERE tenant_id = 1`],
    ['TRUNCATE', `TRUNCATE waybill.idempotency_keys`],
    ['INSERT of a policy', `INSERT INTO waybill.idempotency_policies VALUES (1, NULL)`],
  ])('takes no %s from the app role', async (_what, statement) => {
    const refusal = await withClient(service.database.appUrl, (client) => refusalOf(client.query(statement)));
    expect(refusal.code).toBe('42501');
  });

  it('shows the app role nothing without a tenant, and nothing of another', async () => {
    const a = await connect();
    await storeAnswer(a, randomUUID());
    const seen = async (tenant: number | null) => {
      await a.query('BEGIN');
      await enter(a, { tenant, actor });
      const { rows: found } = await a.query('SELECT DISTINCT tenant_id FROM waybill.idempotency_keys');
      await a.query('ROLLBACK');
      return found;
    };
    expect(await seen(null)).toEqual([]);
    expect(await seen(2)).not.toContainEqual({ tenant_id: '1' });
    expect(await seen(1)).toEqual([{ tenant_id: '1' }]);
  });

  it.each([
    ['a processing row with an answer', `status = 'processing'`],
    ['a final row without a status', `response_status = NULL`],
    ['a final row that never expires by accident', `expires_at = NULL`],
    ['a failure that is a success', `status = 'failed'`],
    ['half a lease', `lease_until = now()`],
    ['a key with a comma', `idempotency_key = 'a,b'`],
    ['a hash of another length', `request_hash = 'x'`],
  ])('refuses %s, whoever writes it', async (_what, change) => {
    const key = randomUUID();
    await storeAnswer(await connect(), key);
    const refusal = await withClient(service.database.superuserUrl, async (client) => {
      await client.query('BEGIN');
      await enter(client, { tenant: 1, actor });
      return refusalOf(client.query(`UPDATE waybill.idempotency_keys SET ${change} WHERE idempotency_key = $1`, [key]));
    });
    expect(refusal.code).toBe('23514');
  });
});
