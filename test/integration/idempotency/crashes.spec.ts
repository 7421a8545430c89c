import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { installKillPoints, type KillPoint } from '../../../src/database/index.js';
import { loadConfig } from '../../../src/config.js';
import { type Answer, ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';
import { type DatabaseProxy, startDatabaseProxy } from '../../support/database-proxy.js';
import { type ServiceProcess, startServiceProcess } from '../../support/service-process.js';
import { rows } from '../../support/sql.js';

const POINTS: readonly [when: string, point: KillPoint, isCommitted: boolean][] = [
  ['before the claim', 'claim.before', false],
  ['after the claim', 'claim.after', false],
  ['after the write', 'write.after', false],
  ['before COMMIT', 'commit.before', false],
  ['20. between COMMIT and anything after it', 'commit.after', true],
];

/** The service that lives on, and that retries go to. */
let survivor: TestApp;
beforeAll(async () => {
  survivor = await startTestApp();
});
afterAll(() => survivor.close());

/** A request that may be sent any number of times. */
interface Attempted {
  key: string;
  path: string;
  body: Record<string, unknown>;
  orderId?: string;
}

function send(client: ApiClient, { path, body, key }: Attempted): Promise<Answer<Order>> {
  return client.post<Order>(path, body, { 'idempotency-key': key });
}

/** Sends it until it has a lasting answer, as a client does. */
async function insist(client: ApiClient, attempted: Attempted): Promise<Answer<Order>> {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await send(client, attempted);
    if ((answer.status !== 409 && answer.status < 500) || attempt === 1_200) return answer;
    await sleep(100);
  }
}

/** What was left in the database by all attempts together, found without the key. */
async function effects({ body, orderId }: Attempted) {
  const { reference } = body.metadata as { reference: string };
  const [found] = await rows(
    survivor.database.superuserUrl,
    `WITH mine AS (SELECT id FROM waybill.orders WHERE metadata ->> 'reference' = $1 OR id = $2)
     SELECT (SELECT count(*)::int FROM mine) AS orders,
            (SELECT count(*)::int FROM waybill.order_status_history WHERE order_id IN (SELECT id FROM mine)) AS history,
            (SELECT count(*)::int FROM audit.events WHERE stream IN (SELECT 'order/' || id FROM mine)) AS events`,
    [reference, orderId ?? null],
  );
  return found;
}

function placing(): Attempted {
  const reference = randomUUID();
  const body = orderBody({ externalRef: undefined, metadata: { reference } });
  return { key: randomUUID(), path: '/v1/orders', body };
}

async function moving(): Promise<Attempted> {
  const placed = await survivor.as('operator').post<Order>('/v1/orders', orderBody());
  const body = { to: 'confirmed', metadata: { reference: randomUUID() } };
  return { key: randomUUID(), path: `/v1/orders/${placed.body.id}/transitions`, body, orderId: placed.body.id };
}

/** A retry gives the one answer, and so does every later one, from any process. */
async function expectHealed(attempted: Attempted, wasCommitted: boolean): Promise<void> {
  const retry = await insist(survivor.as('operator'), attempted);
  expect(retry.status).toBe(201);
  expect(retry.headers.get('idempotency-replayed')).toBe(wasCommitted ? 'true' : null);
  for (let again = 0; again < 2; again += 1) {
    const replay = await send(survivor.as('operator'), attempted);
    expect(replay.text).toBe(retry.text);
    expect(replay.headers.get('etag')).toBe(retry.headers.get('etag'));
    expect(replay.headers.get('idempotency-replayed')).toBe('true');
  }
  const moved = attempted.orderId === undefined ? 1 : 2;
  expect(await effects(attempted)).toEqual({ orders: 1, history: moved, events: moved });
}

describe('kill -9 of the process', () => {
  it.each(POINTS)(
    '%s: the same key then gives one effect and the same answer for ever',
    async (_when, point, committed) => {
      const both = [placing(), await moving()];
      let arrived = 0;
      const service: ServiceProcess = await startServiceProcess({
        databaseUrl: survivor.database.appUrl,
        onKillPoint: async (reached) => {
          if (reached === point) arrived += 1;
          if (arrived === both.length) await service.kill('SIGKILL');
          else if (reached === point) await new Promise<never>(() => undefined);
        },
      });
      const client = new ApiClient(service.baseUrl, survivor.as('operator').apiKey);
      const sent = await Promise.allSettled(both.map((attempted) => send(client, attempted)));
      expect(sent.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      for (const attempted of both) await expectHealed(attempted, committed);
    },
  );
});

describe('the end of the backend (pg_terminate_backend)', () => {
  afterEach(() => installKillPoints(undefined));

  it.each(POINTS)('%s: the same key then gives one effect and the same answer', async (_when, point, committed) => {
    for (const attempted of [placing(), await moving()]) {
      let ended = 0;
      installKillPoints(async (reached) => {
        if (reached !== point || ended > 0) return;
        ended = await endBackends();
      });
      const answer = await send(survivor.as('operator'), attempted);
      expect(ended).toBeGreaterThan(0);
      // A connection that was idle is replaced before anything is lost.
      const survives = committed || point === 'claim.before';
      expect(answer.status).toBe(survives ? 201 : 503);
      if (!survives) expect(answer.headers.get('retry-after')).not.toBeNull();
      await expectHealed(attempted, survives);
    }
  });

  async function endBackends(): Promise<number> {
    const ended = await rows(
      survivor.database.superuserUrl,
      `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
       WHERE datname = current_database() AND usename = 'waybill_app'`,
    );
    // Until the service has heard of it.
    await sleep(100);
    return ended.length;
  }
});

describe('the line to the database', () => {
  let proxy: DatabaseProxy;
  let service: TestApp;
  beforeAll(async () => {
    proxy = await startDatabaseProxy(survivor.database.appUrl);
    service = await startTestApp({ database: { ...survivor.database, appUrl: proxy.url } });
    // The second app made new keys for the demo users.
    survivor = { ...survivor, as: (role) => new ApiClient(survivor.baseUrl, service.as(role).apiKey) };
  });
  afterAll(async () => {
    await service.close();
    await proxy.close();
  });
  afterEach(() => installKillPoints(undefined));

  it('is lost with the answer of COMMIT: 503, and the retry finds what was committed', async () => {
    for (const attempted of [placing(), await moving()]) {
      installKillPoints((reached) => {
        if (reached === 'commit.before') proxy.loseNextCommitAnswer();
        return Promise.resolve();
      });
      const answer = await send(service.as('operator'), attempted);
      installKillPoints(undefined);
      expect(answer.status).toBe(503);
      expect(answer.headers.get('location')).toBeNull();
      await expectHealed(attempted, true);
    }
  });

  it('19. is down, then up, and the same key works: the 5xx was not stored', async () => {
    for (const attempted of [placing(), await moving()]) {
      installKillPoints((reached) => (reached === 'write.after' ? proxy.down() : Promise.resolve()));
      const during = await send(service.as('operator'), attempted);
      installKillPoints(undefined);
      const meanwhile = await send(service.as('operator'), attempted);
      expect([during.status, meanwhile.status]).toEqual([503, 503]);
      await proxy.up();
      const after = await insist(service.as('operator'), attempted);
      expect(after.status).toBe(201);
      expect(after.headers.get('idempotency-replayed')).toBeNull();
      await expectHealed(attempted, true);
    }
  });
});

describe('kill points', () => {
  it('are refused in production', () => {
    const production = { NODE_ENV: 'production', DATABASE_URL: 'postgres://a@b/c', WAYBILL_KILL_POINTS: 'parent' };
    expect(() => loadConfig(production)).toThrow('WAYBILL_KILL_POINTS is for fault tests');
    expect(loadConfig({}).killPoints).toBe(false);
  });
});
