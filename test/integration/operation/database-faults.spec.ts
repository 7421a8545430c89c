import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { databaseUrl } from '../../../src/database/bootstrap.js';
import { type Answer, ApiClient } from '../../support/api-client.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { type OwnPostgres, startOwnPostgres } from '../../support/own-postgres.js';
import { place } from '../../support/orders.js';
import { type RealService, startRealService } from '../../support/real-service.js';
import { rows } from '../../support/sql.js';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { eventually, untilGone, untilLocked } from '../../support/waiting.js';

const TIMEOUTS = { DATABASE_CONNECT_TIMEOUT: '3', DATABASE_STATEMENT_TIMEOUT: '4', DATABASE_LOCK_TIMEOUT: '2' };

describe('a service whose database', () => {
  let postgres: OwnPostgres;
  let proxy: TcpProxy;
  let service: RealService;
  let client: ApiClient;
  /** Goes through all of it, as far as its settings are the usual ones: it has to recover each time. */
  let usual: { service: RealService; client: ApiClient } | undefined;
  beforeAll(async () => {
    postgres = await startOwnPostgres();
    proxy = await startTcpProxy(postgres.port);
  });
  afterAll(async () => {
    await usual?.service.kill();
    await proxy.close();
    await postgres.discard();
  });
  afterEach(async () => {
    if (service !== usual?.service) await service.kill();
  });

  async function start(env: Record<string, string> = {}): Promise<void> {
    service = startRealService({
      env: { DATABASE_URL: proxy.through(postgres.appUrl), DATABASE_POOL_SIZE: '4', ...TIMEOUTS, ...env },
    });
    client = new ApiClient(await service.baseUrl(), postgres.tenants[0]?.keys.operator);
  }

  async function useUsual(): Promise<void> {
    if (!usual) {
      await start();
      usual = { service, client };
    }
    ({ service, client } = usual);
    await expectRecovery();
  }

  /** A write, a read and readiness all say that the service can't, and when to come again. */
  async function expectUnavailable(paths = ['/v1/orders', '/health/ready']): Promise<void> {
    const answers = await Promise.all([
      client.post<ProblemAnswer>('/v1/orders', orderBody()),
      ...paths.map((path) => client.get<ProblemAnswer>(path)),
    ]);
    for (const { status, body, headers } of answers) {
      expect({ status, code: body.code }).toEqual({ status: 503, code: 'unavailable' });
      expect(headers.get('content-type')).toBe('application/problem+json');
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect((await client.get('/health/live')).status).toBe(200);
  }

  /** By itself, without a restart of the process. */
  async function expectRecovery(): Promise<void> {
    await eventually(async () => (await client.get('/health/ready')).status === 200);
    expect((await place(client)).status).toBe('pending');
    expect(service.child.exitCode).toBeNull();
  }

  /** Sends the same request until it is answered by something else than 503, as a client does. */
  async function persist(key: string, body: Record<string, unknown>): Promise<Answer<Order>> {
    for (;;) {
      const answer = await client.post<Order>('/v1/orders', body, { 'idempotency-key': key });
      if (answer.status !== 503 && answer.status !== 409) return answer;
      await sleep(100);
    }
  }

  it('comes late is waited for, with a message that says for what, and without its password', async () => {
    await proxy.unplug();
    const started = start();
    const waiting = await service.entry(({ msg }) => msg.startsWith('Waiting for PostgreSQL'));
    expect(waiting.msg).toMatch(/Waiting for PostgreSQL at 127\.0\.0\.1:\d+\/waybill \(.*ECONNREFUSED.*\)/);
    expect(waiting.msg).not.toContain(new URL(postgres.appUrl).password);
    await sleep(1_500);
    expect(service.child.exitCode).toBeNull();
    await proxy.plug();
    await started;
    await expectRecovery();
  });

  it('refuses its password is not waited for', async () => {
    const wrong = Object.assign(new URL(postgres.appUrl), { password: 'wrong' }).href;
    service = startRealService({ env: { DATABASE_URL: wrong } });
    expect(await service.ended).toBe(1);
    expect(service.errors()).toContain('as waybill_app: password authentication failed');
    expect(service.errors()).not.toContain('    at ');
  });

  it('goes away for a while answers 503 and goes on when it is back', async () => {
    await useUsual();
    await place(client);
    await proxy.unplug();
    await expectUnavailable();
    await proxy.plug();
    await expectRecovery();
  });

  it('is restarted loses nothing and does nothing twice', async () => {
    await start({ DATABASE_URL: postgres.appUrl });
    const refs = Array.from({ length: 12 }, () => `restart-${randomUUID()}`);
    const writes = refs.map((externalRef, at) =>
      sleep(at * 40).then(() => persist(randomUUID(), orderBody({ externalRef }))),
    );
    await sleep(150);
    await postgres.stop();
    await sleep(300);
    await postgres.start();
    for (const { status } of await Promise.all(writes)) expect(status).toBe(201);
    const [row] = await postgres.query<{ orders: number; events: number }>(`
      SELECT count(*)::int AS orders, count(DISTINCT external_ref)::int AS refs,
             (SELECT count(*)::int FROM audit.events e JOIN waybill.orders p ON e.stream = 'order/' || p.id
              WHERE p.external_ref LIKE 'restart-%') AS events
      FROM waybill.orders WHERE external_ref LIKE 'restart-%'`);
    expect(row).toEqual({ orders: 12, refs: 12, events: 12 });
    await expectRecovery();
  });

  it('ends every connection goes on with new ones', async () => {
    await useUsual();
    await Promise.all(Array.from({ length: 8 }, () => place(client)));
    await postgres.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'waybill_app'`);
    await expectRecovery();
  });

  it('has no connection left answers 503 and goes on when there is one', async () => {
    await useUsual();
    await postgres.query('ALTER ROLE waybill_app CONNECTION LIMIT 0');
    await postgres.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'waybill_app'`);
    await untilGone(postgres.superuserUrl, 'waybill_app');
    await expectUnavailable();
    await postgres.query('ALTER ROLE waybill_app CONNECTION LIMIT -1');
    await expectRecovery();
  });

  it.each([
    [
      'changes the password of the service’s role',
      `ALTER ROLE waybill_app PASSWORD 'another'`,
      () => `ALTER ROLE waybill_app PASSWORD '${new URL(postgres.appUrl).password}'`,
    ],
    [
      'lets the service’s role no longer log in',
      'ALTER ROLE waybill_app NOLOGIN',
      () => 'ALTER ROLE waybill_app LOGIN',
    ],
    [
      'takes the right to connect away',
      'REVOKE CONNECT ON DATABASE waybill FROM waybill_app',
      () => 'GRANT CONNECT ON DATABASE waybill TO waybill_app',
    ],
    ['is renamed', 'ALTER DATABASE waybill RENAME TO elsewhere', () => 'ALTER DATABASE elsewhere RENAME TO waybill'],
  ])('%s answers 503 and goes on, without a restart, when that is undone', async (_what, change, undo) => {
    await useUsual();
    const maintenance = databaseUrl(postgres.superuserUrl, 'postgres').href;
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'waybill%'`;
    // What the service does beside the requests may connect once more in between.
    await eventually(async () => {
      await rows(maintenance, end);
      return rows(maintenance, change).catch(() => undefined);
    });
    await rows(maintenance, end);
    await eventually(async () => (await client.get('/health/ready')).status === 503);
    await expectUnavailable();
    await rows(maintenance, undo());
    await expectRecovery();
  });

  it('becomes a standby answers 503 to what writes, is not ready, and goes on when it is promoted', async () => {
    await useUsual();
    await place(client);
    await postgres.startAsStandby();
    await eventually(async () => (await client.get('/health/ready')).status === 503);
    await expectUnavailable(['/health/ready']);
    // One that starts meanwhile waits for the same.
    const later = startRealService({ env: { DATABASE_URL: postgres.appUrl } });
    await later.entry(({ msg }) => msg.includes('is a standby'));
    await postgres.query('SELECT pg_promote()');
    await expectRecovery();
    await later.baseUrl();
    await later.kill();
  });

  it('is slow gets slow answers, and no errors', async () => {
    await useUsual();
    proxy.slowDown(100);
    const began = Date.now();
    expect((await place(client)).status).toBe('pending');
    expect(Date.now() - began).toBeGreaterThan(300);
    proxy.slowDown(0);
    await expectRecovery();
  });

  it('no longer answers on open connections is given up after the statement’s time', async () => {
    await useUsual();
    await place(client);
    proxy.freeze();
    const began = Date.now();
    await expectUnavailable();
    expect(Date.now() - began).toBeLessThan(60_000);
    proxy.thaw();
    await expectRecovery();
  });

  it('has its only connections held by long requests answers others in bounded time', async () => {
    await start({ DATABASE_POOL_SIZE: '2', DATABASE_LOCK_TIMEOUT: '120', DATABASE_STATEMENT_TIMEOUT: '120' });
    const order = await place(client);
    const locker = new Client({ connectionString: postgres.superuserUrl });
    await locker.connect();
    await locker.query('BEGIN');
    await locker.query(`SELECT FROM waybill.orders WHERE id = '${order.id}' FOR UPDATE`);
    const slow = ['a', 'b'].map((note) =>
      client.post(`/v1/orders/${order.id}/transitions`, { to: 'confirmed', metadata: { note } }),
    );
    await untilLocked(postgres.superuserUrl, 2);
    const began = Date.now();
    await expectUnavailable(['/v1/orders']);
    expect(Date.now() - began).toBeLessThan(60_000);
    // A pool that is busy says nothing of the database.
    expect((await client.get('/health/ready')).status).toBe(200);
    await locker.query('ROLLBACK');
    await locker.end();
    expect((await Promise.all(slow)).map(({ status }) => status).toSorted()).toEqual([201, 409]);
    await expectRecovery();
  });

  it('makes a statement wait for a lock too long gets a 503, and nothing of it stays', async () => {
    await useUsual();
    const order = await place(client);
    const locker = new Client({ connectionString: postgres.superuserUrl });
    await locker.connect();
    await locker.query('BEGIN');
    await locker.query(`SELECT FROM waybill.orders WHERE id = '${order.id}' FOR UPDATE`);
    const answer = await client.post<ProblemAnswer>(`/v1/orders/${order.id}/transitions`, { to: 'confirmed' });
    expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    await locker.query('ROLLBACK');
    await locker.end();
    expect((await client.get<Order>(`/v1/orders/${order.id}`)).body).toMatchObject({ status: 'pending', version: 1 });
  });
});
