import { afterEach, describe, expect, it } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { embeddedBinaries, type EmbeddedMajor } from '../../../src/database/embedded/index.js';
import { Administration } from '../../../src/identity/administration.js';
import { ApiClient } from '../../support/api-client.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { type OwnPostgres, startOwnPostgres } from '../../support/own-postgres.js';
import { move, place } from '../../support/orders.js';
import { type RealService, startRealService } from '../../support/real-service.js';
import { eventually } from '../../support/waiting.js';

const MAJOR = (process.env.TEST_POSTGRES ?? '18') as EmbeddedMajor;
const FAKETIME = ['x86_64-linux-gnu', 'aarch64-linux-gnu']
  .map((folder) => `/usr/lib/${folder}/faketime/libfaketimeMT.so.1`)
  .find((file) => existsSync(file));
const DISK_BYTES = 200 * 1024 * 1024;

let cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  cleanUps = [];
});

async function startService(
  postgres: OwnPostgres,
  env: Record<string, string> = {},
): Promise<[RealService, ApiClient]> {
  const service = startRealService({
    env: { DATABASE_URL: postgres.appUrl, DATABASE_POOL_SIZE: '4', DATABASE_STATEMENT_TIMEOUT: '30', ...env },
  });
  cleanUps.push(() => service.kill());
  return [service, new ApiClient(await service.baseUrl(), postgres.tenants[0]?.keys.operator)];
}

/** A small file system in memory; null where this process may not mount one. */
function smallDisk(folder: string): string | null {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=755`, 'tmpfs', folder], { stdio: 'ignore' });
    return folder;
  } catch {
    return null;
  }
}

async function temporaryFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), name));
  await chmod(folder, 0o755);
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe('a full disk', () => {
  it('is answered with 503s, and nothing is lost or done twice once there is room again', async () => {
    const folder = await temporaryFolder('waybill-disk-');
    if (!smallDisk(folder)) return console.warn('Not tried: this process may not mount a small file system.');
    cleanUps.push(() => execFileSync('umount', [folder]));
    const postgres = await startOwnPostgres({ folder: join(folder, 'server'), durable: true });
    cleanUps.push(() => postgres.discard());
    const [service, client] = await startService(postgres);

    const { bavail, bsize } = await statfs(folder);
    const filler = join(folder, 'filler');
    await writeFile(filler, Buffer.alloc(bavail * bsize - 512 * 1024));
    const attempt = (key: string) =>
      client.post<Order & ProblemAnswer>('/v1/orders', orderBody({ externalRef: key, metadata: bigMetadata() }), {
        'idempotency-key': key,
      });
    const placed: string[] = [];
    let refused: string | undefined;
    while (refused === undefined && placed.length < 500) {
      const key = randomUUID();
      const { status, body, headers } = await attempt(key);
      if (status === 201) placed.push(key);
      else {
        expect({ status, code: body.code }).toEqual({ status: 503, code: 'unavailable' });
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
        refused = key;
      }
    }
    expect(refused).toBeDefined();
    expect((await client.get('/health/live')).status).toBe(200);

    await rm(filler);
    for (;;) {
      const { status } = await attempt(refused ?? '');
      if (status === 201) break;
      expect(status).toBe(503);
      await sleep(200);
    }
    placed.push(refused ?? '');
    const refs = await postgres.query<{ ref: string }>('SELECT external_ref AS ref FROM waybill.orders');
    expect(refs.map(({ ref }) => ref).toSorted()).toEqual(placed.toSorted());
    expect(service.child.exitCode).toBeNull();
  });
});

/** As much as an order may hold, and nothing that PostgreSQL could compress. */
function bigMetadata(): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`m${at}`, randomBytes(360).toString('base64')]));
}

const whereClocksCanBeFaked = FAKETIME ? describe : describe.skip;

whereClocksCanBeFaked('a clock that jumps', () => {
  /** A file that libfaketime reads at every call: write `-3600` into it and the clock of the process jumps back. */
  async function fakeClock(): Promise<{ env: Record<string, string>; jump: (seconds: number) => Promise<void> }> {
    const file = join(await temporaryFolder('waybill-clock-'), 'offset');
    const jump = (seconds: number): Promise<void> => writeFile(file, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    await jump(0);
    const env = {
      LD_PRELOAD: FAKETIME ?? '',
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
    return { env, jump };
  }

  it('in the service, back and forth, changes nothing that is kept', async () => {
    const postgres = await startOwnPostgres();
    cleanUps.push(() => postgres.discard());
    const clock = await fakeClock();
    const [, client] = await startService(postgres, clock.env);
    for (const seconds of [-7_200, 86_400, 0]) {
      await clock.jump(seconds);
      await sleep(1_100); // Node keeps the Date header for a second
      const date = new Date((await client.get('/health/live')).headers.get('date') ?? '').getTime();
      expect(Math.abs(date - Date.now() - seconds * 1000)).toBeLessThan(60_000);
      const order = await place(client);
      expect(Math.abs(Date.parse(order.placedAt) - Date.now())).toBeLessThan(60_000);
      expect((await move(client, order.id, 'confirmed')).status).toBe(201);
    }
    expect((await client.get('/health/ready')).status).toBe(200);

    // The key was accepted by the clock as it was; revoked elsewhere, it dies in this process all the same.
    await clock.jump(-7_200);
    await new Administration(postgres.ownerUrl).revokeKey('demo', postgres.tenants[0]?.keys.operator ?? '');
    await eventually(async () => (await client.get('/v1/orders')).status === 401, 60_000);
  });

  it('in the database, back and forth, never makes an order’s history run backwards', async () => {
    const clock = await fakeClock();
    const postgres = await startOwnPostgres({ binaries: await binariesWith(clock.env) });
    cleanUps.push(() => postgres.discard());
    const [, client] = await startService(postgres);
    const order = await place(client);
    await clock.jump(-3_600);
    const [now] = await postgres.query<{ behind: number }>(
      `SELECT extract(epoch FROM clock_timestamp())::float8 AS behind`,
    );
    expect(Date.now() / 1000 - (now?.behind ?? 0)).toBeGreaterThan(3_500);
    expect((await move(client, order.id, 'confirmed')).status).toBe(201);
    await clock.jump(7_200);
    expect((await move(client, order.id, 'shipped')).status).toBe(201);
    await clock.jump(0);
    expect((await move(client, order.id, 'delivered')).status).toBe(201);
    const steps = await postgres.query<{ forwards: boolean; events: boolean }>(`
      SELECT changed_at > lag(changed_at) OVER (ORDER BY seq) AS forwards,
             (SELECT occurred_us > lag FROM (
               SELECT version, occurred_us, lag(occurred_us) OVER (ORDER BY version) FROM audit.events
               WHERE stream = 'order/${order.id}') e WHERE e.version = h.seq) AS events
      FROM waybill.order_status_history h WHERE order_id = '${order.id}' ORDER BY seq`);
    expect(steps.slice(1)).toEqual([1, 2, 3].map(() => ({ forwards: true, events: true })));
  });

  /** PostgreSQL's package with a `postgres` that sets these variables before it becomes the real one. */
  async function binariesWith(env: Record<string, string>): Promise<string> {
    const real = embeddedBinaries(MAJOR);
    const folder = await temporaryFolder('waybill-binaries-');
    const bin = join(folder, 'native', 'bin');
    await mkdir(bin, { recursive: true });
    await symlink(join(real, 'package.json'), join(folder, 'package.json'));
    await symlink(join(real, 'native/bin/initdb'), join(bin, 'initdb'));
    const settings = Object.entries(env).map(([name, value]) => `${name}='${value}'`);
    await writeFile(
      join(bin, 'postgres'),
      `#!/bin/sh\n${settings.join(' ')} exec '${real}/native/bin/postgres' "$@"\n`,
    );
    await chmod(join(bin, 'postgres'), 0o755);
    return folder;
  }
});
