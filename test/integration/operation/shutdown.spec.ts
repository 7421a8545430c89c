import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { type DemoTenant, makeDemoTenants } from '../../../src/identity/index.js';
import { ApiClient } from '../../support/api-client.js';
import type { Order, ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { move, place } from '../../support/orders.js';
import { type RealService, startRealService } from '../../support/real-service.js';
import { eventually, untilGone, untilLocked } from '../../support/waiting.js';

describe('a service that is told to end', () => {
  let database: TestDatabase;
  let tenant: DemoTenant;
  let service: RealService;
  let client: ApiClient;
  let locker: Client;
  beforeEach(async () => {
    database = await createTestDatabase();
    [tenant] = (await makeDemoTenants(database.ownerUrl)) as [DemoTenant];
    locker = new Client({ connectionString: database.superuserUrl });
    await locker.connect();
  });
  afterEach(async () => {
    await locker.end();
    await service.kill();
    await database.drop();
  });

  async function start(env: Record<string, string> = {}, nodeOptions: string[] = []): Promise<void> {
    service = startRealService({ env: { DATABASE_URL: database.appUrl, ...env }, nodeOptions });
    client = new ApiClient(await service.baseUrl(), tenant.keys.operator);
  }

  /** A request that is in the middle of its transaction, until `release`. */
  async function slowRequest(): Promise<{ answer: ReturnType<typeof move>; release: () => Promise<unknown> }> {
    const order = await place(client);
    await locker.query('BEGIN');
    await locker.query('SELECT FROM waybill.orders WHERE id = $1 FOR UPDATE', [order.id]);
    const answer = move(client, order.id, 'confirmed');
    answer.catch(() => undefined);
    await untilLocked(database.superuserUrl);
    return { answer, release: () => locker.query('ROLLBACK') };
  }

  /** Background work is told first that the end comes, which may take a moment; the slow request is open all the while. */
  async function untilRefused(): Promise<void> {
    const isRefused = (): Promise<boolean> =>
      fetch(`${client.baseUrl}/health/live`).then(
        () => false,
        () => true,
      );
    await eventually(isRefused);
  }

  it('exits 0 although something that it knows nothing of still runs', async () => {
    await start({}, ['--import', 'data:text/javascript,setInterval(() => undefined, 1000)']);
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(0);
    expect(service.log.at(-1)?.msg).toContain('left open');
  });

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'answers on %s what it accepted, takes nothing new, and exits 0',
    async (signal) => {
      // Ending with 0 means that it was over before the grace period.
      await start({ SHUTDOWN_GRACE: '120' });
      const { answer, release } = await slowRequest();
      service.child.kill(signal);
      await service.entry(({ msg }) => msg.startsWith(signal));
      await untilRefused();
      await release();
      const { status, body, headers } = await answer;
      expect({ status, state: (body as Order).status }).toEqual({ status: 201, state: 'confirmed' });
      expect(headers.get('connection')).toBe('close');
      expect(await service.ended).toBe(0);
    },
  );

  it('does not wait for idle kept connections', async () => {
    await start();
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    const address = `${client.baseUrl}/health/live`;
    await Promise.all([getWith(agent, address), getWith(agent, address)]);
    service.child.kill('SIGTERM');
    // The server itself closes an idle connection only after 72 seconds.
    expect(await Promise.race([service.ended, sleep(60_000, 'still there', { ref: false })])).toBe(0);
    agent.destroy();
  });

  it('is not ready while it drains, and still serves who comes before the delay is over', async () => {
    await start({ SHUTDOWN_DELAY: '8' });
    service.child.kill('SIGTERM');
    await service.entry(({ msg }) => msg.startsWith('SIGTERM'));
    const ready = await client.get<ProblemAnswer>('/health/ready');
    expect(ready).toMatchObject({
      status: 503,
      body: { code: 'unavailable', detail: 'This process is about to end.' },
    });
    expect(ready.headers.get('retry-after')).toBe('2');
    expect((await client.get('/health/live')).status).toBe(200);
    const order = await place(client);
    expect(order.status).toBe('pending');
    expect(await service.ended).toBe(0);
  });

  it('ends with an error when requests outlast the grace period, and what they did is rolled back', async () => {
    await start({ SHUTDOWN_GRACE: '1' });
    const { answer } = await slowRequest();
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(1);
    await expect(answer).rejects.toThrow('fetch failed');
    await locker.query('ROLLBACK');
    await untilGone(database.superuserUrl, 'waybill_app');
    const { rows } = await locker.query('SELECT status FROM waybill.orders');
    expect(rows).toEqual([{ status: 'pending' }]);
  });
});

function getWith(agent: Agent, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    httpRequest(address, { agent }, (response) => {
      response.resume().once('end', resolve);
    })
      .once('error', reject)
      .end();
  });
}
