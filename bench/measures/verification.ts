import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { generateOrders } from '../generate/orders.js';
import { format, type Row } from '../report/row.js';
import { ROOT } from '../world/folders.js';
import { cpuOf, residentMegabytes } from '../world/processes.js';
import { type BenchDatabase, query } from '../world/server.js';
import { startService } from '../world/service.js';
import { sealingSettings } from '../world/signing-key.js';
import { queued } from './sealing.js';
import type { Measure } from './measure.js';

interface Verified {
  perSecond: number;
  perCpuSecond: number;
  memory: number;
}

/** The verification of a sealed log by `waybill audit verify`, hashes alone and with signatures. */
export const verification: Measure = {
  name: 'verification',
  run: async ({ server, options, say }): Promise<Row[]> => {
    const database = await server.createDatabase('bench_verification');
    const folder = await mkdtemp(join(tmpdir(), 'waybill-checkpoints-'));
    const settings = sealingSettings(folder);
    try {
      await generateOrders(database, { from: 1, to: options.events, mixed: false, queued: true }, say);
      const rate = await seal(database, settings, say);
      await query(database.superuserUrl, 'VACUUM ANALYZE');
      const verify = async (flags: string[]): Promise<Verified[]> => {
        const results = [];
        for (let round = 1; round <= options.rounds; round += 1) {
          say(`verifying ${flags.join(' ') || 'with signatures'}: round ${round} of ${options.rounds}`);
          results.push(await verifyOnce(database, settings, flags, options.events, server.postmaster));
        }
        return results;
      };
      const hashes = await verify(['--no-signatures']);
      const signatures = await verify([]);
      const number = options.events.toLocaleString('en-US');
      const row = (what: string, results: Verified[], atLeast: number): Row => ({
        measure: `verification of ${number} events, ${what}`,
        against: '',
        figures: results.map(({ perCpuSecond }) => perCpuSecond),
        unit: 'events/s a core',
        goal: { atLeast },
        details: {
          'by the clock': `${format(results[0]?.perSecond ?? 0)} events/s; a core's second counts the verifier's and PostgreSQL's`,
        },
      });
      return [
        row('hash chain', hashes, 50_000),
        row('with signatures', signatures, 8_000),
        {
          measure: `memory of the verification of ${number} events`,
          against: '',
          figures: [...hashes, ...signatures].map(({ memory }) => memory),
          unit: 'MiB',
          goal: { atMost: 150 },
          details: { sealing: `${format(rate)} events/s by an otherwise idle service` },
        },
      ];
    } finally {
      await server.dropDatabase('bench_verification');
      await rm(folder, { recursive: true });
    }
  },
};

/** @returns events a second */
async function seal(
  database: BenchDatabase,
  env: Record<string, string>,
  say: (text: string) => void,
): Promise<number> {
  const service = await startService(database, { env });
  const before = await queued(database.superuserUrl);
  const started = performance.now();
  for (let rest = before; rest > 0; rest = await queued(database.superuserUrl)) {
    say(`sealing: ${rest.toLocaleString('en-US')} events to go`);
    await sleep(500);
  }
  const seconds = (performance.now() - started) / 1000;
  await service.stop();
  return before / seconds;
}

async function verifyOnce(
  database: BenchDatabase,
  settings: Record<string, string>,
  flags: string[],
  events: number,
  postmaster: number,
): Promise<Verified> {
  const before = cpuOf([postmaster]);
  const started = performance.now();
  const args = ['audit', 'verify', '--tenant', '1', '--json', ...flags];
  const child = spawn(process.execPath, [join(ROOT, 'dist/src/cli/main.js'), ...args], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      DATABASE_URL: database.appUrl,
      MIGRATION_DATABASE_URL: database.ownerUrl,
      SEALER_DATABASE_URL: database.sealerUrl,
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => output.push(text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => output.push(text));
  const { memory, cpu } = await watch(child);
  const seconds = (performance.now() - started) / 1000;
  if (child.exitCode !== 0) throw new Error(`audit verify ended with ${child.exitCode}: ${output.join('')}`);
  // Its connections must have ended, or PostgreSQL's share is found nowhere.
  await sleep(200);
  const cpuSeconds = (cpu + cpuOf([postmaster]) - before) / 1e6;
  return { perSecond: events / seconds, perCpuSecond: events / cpuSeconds, memory };
}

/** Largest memory in MiB and CPU in microseconds, as last seen while it lived. */
async function watch(child: ChildProcess): Promise<{ memory: number; cpu: number }> {
  let [memory, cpu] = [0, 0];
  const timer = setInterval(() => {
    memory = Math.max(memory, residentMegabytes(child.pid ?? 0));
    cpu = Math.max(cpu, cpuOf([child.pid ?? 0]));
  }, 50);
  await once(child, 'exit');
  clearInterval(timer);
  return { memory, cpu };
}
