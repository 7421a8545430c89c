import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkWrites } from './load/checks.js';
import { driveHttp } from './load/http.js';
import { authorization, createRequests, MOST_PER_SECOND } from './load/orders.js';
import { queued } from './measures/sealing.js';
import type { Bench } from './measures/measure.js';
import { format, median } from './report/row.js';
import { residentMegabytes } from './world/processes.js';
import { query } from './world/server.js';
import { startService } from './world/service.js';
import { sealingSettings } from './world/signing-key.js';

/** Of what the service can do. */
const SHARE = 0.8;
const SLICE_SECONDS = 15;
/** Growth from the first third to the last that is still called none. */
const MOST_GROWTH = 1.25;

interface Slice {
  perSecond: number;
  p99: number;
  memory: number;
  backlog: number;
}

/**
 * Creates at four fifths of the limit for a while, with sealing in the same process: memory, latency and backlog must not
 * grow, and no request may fail.
 *
 * @returns the exit code
 */
export async function soak({ options, server, say }: Bench): Promise<number> {
  const database = await server.createDatabase('bench_soak');
  const folder = await mkdtemp(join(tmpdir(), 'waybill-checkpoints-'));
  const service = await startService(database, { env: sealingSettings(folder) });
  const headers = authorization(database.tenant.keys.operator);
  let placed = 0;
  const drive = async (seconds: number, rate?: number) => {
    // A rate is dealt out to the connections in whole requests, so all of them together may be above it.
    const most = Math.ceil(seconds * (rate ? (rate + options.connections) * 1.5 : MOST_PER_SECOND));
    const sample = await driveHttp({
      baseUrl: service.baseUrl,
      connections: options.connections,
      seconds,
      rate,
      requests: createRequests(most, headers),
      mayRepeat: false,
      service: [service.pid],
      postgres: server.postmaster,
    });
    placed += sample.count;
    return sample;
  };
  try {
    say('finding the limit');
    await drive(options.warmSeconds);
    await server.analyze();
    const limit = (await drive(options.seconds)).perSecond;
    const slices: Slice[] = [];
    for (let left = options.soak; left > 0; left -= SLICE_SECONDS) {
      say(`soak at ${format(limit * SHARE)}/s, ${Math.round(left)} s to go`);
      const sample = await drive(Math.min(SLICE_SECONDS, left), Math.round(limit * SHARE));
      slices.push({
        perSecond: sample.perSecond,
        p99: sample.latency?.p99 ?? 0,
        memory: residentMegabytes(service.pid),
        backlog: await queued(database.superuserUrl),
      });
    }
    await checkWrites(database, placed);
    const [size] = await query<{ size: string }>(
      database.superuserUrl,
      'SELECT pg_size_pretty(pg_database_size(current_database())) AS size',
    );
    return report(slices, limit, placed, size?.size ?? '');
  } finally {
    await service.stop();
    await server.dropDatabase('bench_soak');
    await rm(folder, { recursive: true });
  }
}

function report(slices: Slice[], limit: number, placed: number, size: string): number {
  const third = Math.max(1, Math.floor(slices.length / 3));
  const lines = [`soak: limit ${format(limit)}/s; ${placed} orders, none failed, all rows and hashes right; ${size}`];
  let grown = 0;
  for (const name of ['perSecond', 'p99', 'memory', 'backlog'] as const) {
    const values = slices.map((slice) => slice[name]);
    const [first, last] = [median(values.slice(0, third)), median(values.slice(-third))];
    const hasGrown = name !== 'perSecond' && last > first * MOST_GROWTH && last - first > 1;
    if (hasGrown) grown += 1;
    const range = `${format(Math.min(...values))} to ${format(Math.max(...values))}`;
    lines.push(
      `  ${name}: first third ${format(first)}, last third ${format(last)} (${range})${hasGrown ? ' GROWN' : ''}`,
    );
  }
  process.stdout.write(`${lines.join('\n')}\n`);
  return grown > 0 ? 1 : 0;
}
