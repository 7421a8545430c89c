import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { loadConfig } from '../../../src/config.js';
import { KeySweeper, sweepExpiredKeys } from '../../../src/idempotency/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';
import { actorOf, enter, inTransaction, rows, withClient } from '../../support/sql.js';
import { waybill } from '../../support/waybill.js';

let service: TestApp;
let actor: string;
beforeAll(async () => {
  service = await startTestApp();
  actor = await actorOf(service, 'operator');
});
afterAll(() => service.close());
beforeEach(() =>
  asTenant(
    1,
    `UPDATE waybill.idempotency_policies SET is_default = true, ttl = NULL; DELETE FROM waybill.idempotency_keys WHERE idempotency_key LIKE 'old-%'`,
  ),
);

/** As a superuser, so that a test can make rows old. */
function asTenant(tenant: number, statement: string, values: unknown[] = []): Promise<void> {
  return inTransaction(service.database.superuserUrl, { tenant, actor }, async (client) => {
    await client.query(statement, values);
  });
}

function setTtl(ttl: string | null): Promise<void> {
  return asTenant(
    1,
    `INSERT INTO waybill.idempotency_policies (tenant_id, ttl) VALUES (1, $1)
     ON CONFLICT (tenant_id) DO UPDATE SET ttl = excluded.ttl, is_default = false`,
    [ttl],
  );
}

/** Fills a tenant with expired rows, each older than the one before. */
function fillExpired(tenant: number, count: number): Promise<void> {
  return asTenant(
    tenant,
    `INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, response_status,
                                           response_headers, response_body, created_at, expires_at)
     SELECT $1, 'old-' || n, sha256('x'), 'completed', 201, '{}', 'x', now() - interval '2 days', now() - n * interval '1 second'
     FROM generate_series(1, $2::int) n`,
    [tenant, count],
  );
}

async function expiryOf(key: string, { superuserUrl } = service.database): Promise<string> {
  const [row] = await rows<{ ttl: string }>(
    superuserUrl,
    `SELECT CASE WHEN expires_at = 'infinity' THEN 'for ever'
                 ELSE round(extract(epoch FROM expires_at - now()) / 60)::text END AS ttl
     FROM waybill.idempotency_keys WHERE idempotency_key = $1`,
    [key],
  );
  return row?.ttl ?? 'none';
}

async function place(body = orderBody()): Promise<{ key: string; id: string; replayed: boolean }> {
  return placeAgain(randomUUID(), body);
}

async function placeAgain(key: string, body: Record<string, unknown>) {
  const answer = await service.as('operator').post<Order>('/v1/orders', body, { 'idempotency-key': key });
  expect(answer.status).toBe(201);
  return { key, id: answer.body.id, replayed: answer.headers.get('idempotency-replayed') === 'true' };
}

const sweepRows = async (tenant: number): Promise<number> => {
  const [row] = await rows<{ count: number }>(
    service.database.superuserUrl,
    'SELECT count(*)::int AS count FROM waybill.idempotency_keys WHERE tenant_id = $1',
    [tenant],
  );
  return row?.count ?? 0;
};

describe('an answer is kept', () => {
  it('for 24 hours by default', async () => {
    expect(await expiryOf((await place()).key)).toBe(String(24 * 60));
  });

  it('for as long as its tenant says', async () => {
    await setTtl('90 minutes');
    expect(await expiryOf((await place()).key)).toBe('90');
  });

  it('for ever when its tenant says so, and such a row is never swept', async () => {
    await setTtl(null);
    const { key } = await place();
    expect(await expiryOf(key)).toBe('for ever');
    await service.app.get(KeySweeper, { strict: false }).sweep();
    expect(await expiryOf(key)).toBe('for ever');
  });

  it('and no longer: an expired key is a new key, for any request', async () => {
    const body = orderBody({ externalRef: undefined });
    const first = await place(body);
    await asTenant(1, `UPDATE waybill.idempotency_keys SET expires_at = now() WHERE idempotency_key = $1`, [first.key]);
    const second = await placeAgain(first.key, orderBody());
    expect(second.replayed).toBe(false);
    expect(second.id).not.toBe(first.id);
  });
});

describe('the setting IDEMPOTENCY_TTL', () => {
  it.each([
    ['90m', '90'],
    ['forever', 'for ever'],
  ])('%s is the default of tenants without their own', async (setting, expected) => {
    const other = await startTestApp({ env: { IDEMPOTENCY_TTL: setting } });
    const key = randomUUID();
    await other.as('operator').post('/v1/orders', orderBody(), { 'idempotency-key': key });
    expect(await expiryOf(key, other.database)).toBe(expected);
    await other.close();
  });

  it('names itself when it is no duration', () => {
    expect(() => loadConfig({ IDEMPOTENCY_TTL: 'soon' })).toThrow('IDEMPOTENCY_TTL must be a duration such as 30s');
    expect(() => loadConfig({ IDEMPOTENCY_LEASE: '0s' })).toThrow('IDEMPOTENCY_LEASE must be a duration');
  });
});

describe('the sweeper', () => {
  it('removes expired rows of every tenant, in batches, oldest first, and counts them', async () => {
    await fillExpired(1, 25);
    await fillExpired(2, 7);
    const body = orderBody();
    const kept = await place(body);
    const batches: number[] = [];
    await withClient(service.database.appUrl, async (client) => {
      const sweeps = await sweepExpiredKeys(
        async (text, values) => {
          const found = await client.query<{ swept?: number }>(text, [...values]);
          if (found.rows[0]?.swept !== undefined) batches.push(found.rows[0].swept);
          return found.rows;
        },
        () => false,
        10,
      );
      expect(sweeps).toEqual([
        { tenantId: 1, swept: 25, backlog: 0 },
        { tenantId: 2, swept: 7, backlog: 0 },
      ]);
    });
    expect(batches).toEqual([10, 10, 5, 7]);
    expect((await placeAgain(kept.key, body)).replayed).toBe(true);
  });

  it('takes the oldest first, and says what is left', async () => {
    await fillExpired(1, 5);
    const [row] = await rows(service.database.appUrl, 'SELECT * FROM waybill.sweep_keys(1, 2)');
    expect(row).toEqual({ swept: 2, backlog: 3 });
    const left = await rows<{ key: string }>(
      service.database.superuserUrl,
      `SELECT idempotency_key AS key FROM waybill.idempotency_keys WHERE idempotency_key LIKE 'old-%' ORDER BY 1`,
    );
    expect(left.map(({ key }) => key)).toEqual(['old-1', 'old-2', 'old-3']);
    await service.app.get(KeySweeper, { strict: false }).sweep();
    expect(service.app.get(KeySweeper, { strict: false }).figures).toMatchObject({ backlogRows: 0, failedRounds: 0 });
    expect(service.app.get(KeySweeper, { strict: false }).figures.sweptRows).toBeGreaterThanOrEqual(3);
  });

  it('never takes more than 10,000 at once, whatever it is asked', async () => {
    await fillExpired(2, 10_050);
    const [row] = await rows(service.database.appUrl, 'SELECT * FROM waybill.sweep_keys(2, 1000000)');
    expect(row).toEqual({ swept: 10_000, backlog: 50 });
    await service.app.get(KeySweeper, { strict: false }).sweep();
    expect(await sweepRows(2)).toBe(0);
  });

  it('leaves a tenant alone that another process is sweeping, and a row that somebody holds', async () => {
    await fillExpired(1, 3);
    await withClient(service.database.appUrl, async (other) => {
      await other.query('BEGIN');
      await other.query('SELECT * FROM waybill.sweep_keys(1, 1)');
      const [busy] = await rows(service.database.appUrl, 'SELECT * FROM waybill.sweep_keys(1, 10)');
      expect(busy).toEqual({ swept: null, backlog: null });
      await other.query('ROLLBACK');
    });
    await withClient(service.database.superuserUrl, async (holder) => {
      await holder.query('BEGIN');
      await enter(holder, { tenant: 1, actor });
      await holder.query(`SELECT FROM waybill.idempotency_keys WHERE idempotency_key = 'old-2' FOR UPDATE`);
      const [row] = await rows(service.database.appUrl, 'SELECT * FROM waybill.sweep_keys(1, 10)');
      expect(row).toEqual({ swept: 2, backlog: 1 });
    });
  });

  it('runs by command', async () => {
    await fillExpired(1, 4);
    const { stdout, code } = await command('idempotency', 'sweep');
    expect(stdout).toContain('tenant 1: ');
    expect(stdout).toMatch(/\d+ expired keys removed/);
    expect(code).toBe(0);
    expect(
      await rows(
        service.database.superuserUrl,
        `SELECT FROM waybill.idempotency_keys WHERE idempotency_key LIKE 'old-%'`,
      ),
    ).toEqual([]);
  });

  it('and the command sets a tenant’s time', async () => {
    expect((await command('idempotency', 'ttl', 'demo', 'forever')).code).toBe(0);
    expect(await expiryOf((await place()).key)).toBe('for ever');
    expect((await command('idempotency', 'ttl', 'demo', 'default')).code).toBe(0);
    expect(await expiryOf((await place()).key)).toBe(String(24 * 60));
    expect((await command('idempotency', 'ttl', 'demo', 'soon')).stderr).toContain('15m, 24h or 7d');
  });

  function command(...words: string[]) {
    const { appUrl, ownerUrl, sealerUrl } = service.database;
    return waybill(words, { DATABASE_URL: appUrl, MIGRATION_DATABASE_URL: ownerUrl, SEALER_DATABASE_URL: sealerUrl });
  }
});
