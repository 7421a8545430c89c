import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { generateKeys } from '../../../bench/generate/keys.js';
import { generateOrders } from '../../../bench/generate/orders.js';
import { makeDemoTenants } from '../../../src/identity/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { rows, withClient } from '../../support/sql.js';

/*
 * What must not grow with the number of orders, events and keys. PostgreSQL counts itself how it reads a table, in
 * functions and triggers, too: so each operation is done on a few thousand orders, and the counts are compared. Counts of
 * a connection are complete when it has ended, so after each operation the service's are ended.
 */

/** Enough that looking up a page by ids is cheaper than reading the table, also by what PostgreSQL 15 assumes. */
const ORDERS = 12_000;
const KEYS = 4_000;
/** Small by nature: machines, transitions, tenants, users, API keys, policies. */
const SMALL = /^waybill\.(machines|valid_transitions|tenants|users|api_keys|idempotency_policies|payment_provider)/;
/** Rows that an operation may look at in one table, at most: a page and what belongs to it. */
const MOST_ROWS = 700;

let database: TestDatabase;
let service: TestApp;
let orderId: string;

beforeAll(async () => {
  database = await createTestDatabase();
  await makeDemoTenants(database.ownerUrl);
  const [user] = await rows<{ id: string }>(
    database.superuserUrl,
    `SELECT id FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-operator'`,
  );
  if (!user) throw new Error('the demo tenant has no operator');
  const target = { superuserUrl: database.superuserUrl, operator: user.id };
  await generateOrders(target, { from: 1, to: ORDERS, mixed: true }, () => undefined);
  await generateKeys(target, KEYS, () => undefined);
  const [order] = await rows<{ id: string }>(
    database.superuserUrl,
    `SELECT id FROM waybill.orders WHERE status = 'confirmed' ORDER BY id OFFSET 700 LIMIT 1`,
  );
  orderId = order?.id ?? '';
  service = await startTestApp({ database, env: { AUDIT_SEAL_INTERVAL: 'off', RATE_LIMIT: 'off' } });
  // What a service reads once at its start, and the client of it, are not what is measured.
  await service.as('viewer').get('/v1/workflows');
  await endConnections();
  await settledAccess();
});
afterAll(async () => {
  await service.close();
  await database.drop();
});

const get = (path: () => string) => async (service: TestApp) => {
  const answer = await service.as('viewer').get<{ next?: string | null }>(path());
  if (answer.status !== 200) throw new Error(`${path()}: ${answer.status} ${answer.text}`);
  return answer.body;
};

const OPERATIONS: [string, (service: TestApp) => Promise<unknown>][] = [
  ['placing an order', (service) => service.as('operator').post('/v1/orders', orderBody())],
  [
    'a step of an order',
    (service) => service.as('operator').post(`/v1/orders/${orderId}/transitions`, { to: 'shipped' }),
  ],
  [
    'a replay',
    async (service) => {
      const [body, key] = [orderBody(), randomUUID()];
      for (let time = 0; time < 3; time += 1) {
        await service.as('operator').post('/v1/orders', body, { 'idempotency-key': key });
      }
    },
  ],
  ['reading an order', get(() => `/v1/orders/${orderId}`)],
  ['reading an order as it was', get(() => `/v1/orders/${orderId}?asOf=2027-01-01T00:00:00Z`)],
  ['reading a version of an order', get(() => `/v1/orders/${orderId}?version=1`)],
  ['its history', get(() => `/v1/orders/${orderId}/history`)],
  ['its events', get(() => `/v1/orders/${orderId}/events`)],
  ['the first page of the list', get(() => '/v1/orders')],
  ['the list of a state', get(() => '/v1/orders?status=confirmed')],
  ['the list of two states', get(() => '/v1/orders?status=confirmed,pending')],
  ['the list of a customer', get(() => '/v1/orders?customerRef=c-1234')],
  ['the list of a channel', get(() => '/v1/orders?channel=shop&sort=placedAt')],
  ['the list by time of change', get(() => '/v1/orders?sort=-updatedAt')],
  ['a search by the beginning of a reference', get(() => '/v1/orders?q=generated-119')],
  [
    'a deep page of the list',
    async (service) => {
      let cursor = '';
      // Read up to here by pages, the last of which is what counts; all of them together stay within the bound of each.
      for (let page = 0; page < 3; page += 1) {
        const { next } = await get(() => `/v1/orders?limit=50${cursor}`)(service);
        cursor = `&cursor=${encodeURIComponent(next ?? '')}`;
      }
    },
  ],
];

describe(`with ${ORDERS} orders and ${KEYS} keys`, () => {
  it.each(OPERATIONS)('%s reads few rows, by index', async (_name, operation) => {
    const before = await access();
    await operation(service);
    const after = await settledAccess();
    const scanned = differences(before.scans, after.scans).filter(([, count]) => count > 0);
    expect(scanned).toEqual([]);
    const read = differences(before.rows, after.rows).filter(([, count]) => count > MOST_ROWS);
    expect(read).toEqual([]);
  });

  it('the state check of a verification looks each order up, and does not compare all with all', async () => {
    await withClient(database.sealerUrl, async (client) => {
      await client.query(`SET statement_timeout = '60s'`);
      expect(await stateFault(client, '00000000-0000-0000-0000-000000000000')).toBeNull();
    });
  });

  it('and in its later steps reads no table from end to end', async () => {
    const before = await access();
    await withClient(database.sealerUrl, async (client) => expect(await stateFault(client, orderId)).toBeNull());
    const after = await settledAccess();
    expect(differences(before.scans, after.scans).filter(([, count]) => count > 0)).toEqual([]);
    // Lines, contacts and events of each.
    const most = STATE_STEP * 10;
    expect(differences(before.rows, after.rows).filter(([, count]) => count > most)).toEqual([]);
  });
});

/** Orders that one step of the check looks at. */
const STATE_STEP = 500;

async function stateFault(client: Client, after: string): Promise<string | null> {
  await client.query('BEGIN READ ONLY');
  await client.query(`SELECT waybill.set_context(1, NULL, '{}', NULL)`);
  const { rows: found } = await client.query<{ code: string | null }>(
    `SELECT code FROM audit.state_faults(1, 'order', $1, $2)`,
    [after, STATE_STEP],
  );
  await client.query('COMMIT');
  return found[0]?.code ?? null;
}

interface Access {
  /** Sequential scans by table. */
  scans: Map<string, number>;
  /** Rows found through indexes by table. */
  rows: Map<string, number>;
}

async function access(): Promise<Access> {
  const counted = await rows<{ name: string; scans: number; fetched: number }>(
    database.superuserUrl,
    `SELECT schemaname || '.' || relname AS name, seq_scan::float8 AS scans, coalesce(idx_tup_fetch, 0)::float8 AS fetched
     FROM pg_stat_user_tables WHERE schemaname IN ('waybill', 'audit')`,
  );
  const large = counted.filter(({ name }) => !SMALL.test(name));
  return {
    scans: new Map(large.map(({ name, scans }) => [name, scans])),
    rows: new Map(large.map(({ name, fetched }) => [name, fetched])),
  };
}

/** The service opens new ones when it needs them. */
async function endConnections(): Promise<void> {
  await rows(
    database.superuserUrl,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'waybill_app'`,
  );
}

/** Once no other connection is there: a session tells its figures when it ends. The service may open one meanwhile. */
async function settledAccess(): Promise<Access> {
  for (;;) {
    await endConnections();
    const [others] = await rows<{ count: number }>(
      database.superuserUrl,
      `SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND usename <> current_user`,
    );
    if (others?.count === 0) return access();
    await sleep(20);
  }
}

function differences(before: Map<string, number>, after: Map<string, number>): [string, number][] {
  return [...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)]);
}
