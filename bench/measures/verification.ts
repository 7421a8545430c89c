import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EMBEDDED_DATABASE } from '../../src/database/embedded/index.js';
import { generateOrders } from '../generate/orders.js';
import { format, type Row } from '../report/row.js';
import { BENCH_FOLDER, ROOT } from '../world/folders.js';
import { cpuOf, residentMegabytes } from '../world/processes.js';
import { type BenchDatabase, query } from '../world/server.js';
import { startService } from '../world/service.js';
import { sealingSettings } from '../world/signing-key.js';
import { queued } from './sealing.js';
import type { Measure } from './measure.js';

/** Whose commands are run. */
interface Waybill {
  /** Settings, with the database's addresses or the embedded server's folder. */
  settings: Record<string, string>;
  postmaster: number;
}

interface Verified {
  perSecond: number;
  perCpuSecond: number;
  memory: number;
}

/**
 * The verification of a sealed log by `waybill audit verify`: of an export, as a third party does it, and in the database,
 * where it also looks whether the orders are what their last events say.
 */
export const verification: Measure = {
  name: 'verification',
  run: async ({ server, options, say }): Promise<Row[]> => {
    // Under the name of the service's own: a command without addresses finds it on this very server, as a newcomer's does.
    const database = await server.createDatabase(EMBEDDED_DATABASE);
    const folder = await mkdtemp(join(tmpdir(), 'waybill-checkpoints-'));
    const settings = sealingSettings(folder);
    try {
      await generateOrders(database, { from: 1, to: options.events, mixed: false, queued: true }, say);
      const rate = await seal(database, settings, say);
      await query(database.superuserUrl, 'VACUUM ANALYZE');
      const { postmaster } = server;
      const waybill: Waybill = { settings: { ...settings, ...addressesOf(database) }, postmaster };
      const newcomer: Waybill = { settings: { ...settings, WAYBILL_DATA_DIR: BENCH_FOLDER }, postmaster };
      say('exporting');
      const file = join(folder, 'export.ndjson');
      const exported = await run(waybill, ['export', '--tenant', '1', '--output', file]);
      const [vkey = ''] = (await run(waybill, ['keys'])).output.match(/\S+\/1\+[0-9a-f]{8}\+\S+/) ?? [];
      const inExport = ['--export', file, '--vkey', vkey];
      const inDatabase = ['--tenant', '1'];
      const verify = async (what: string, flags: string[], whose = waybill): Promise<Verified[]> => {
        const results = [];
        for (let round = 1; round <= options.rounds; round += 1) {
          say(`verifying ${what}: round ${round} of ${options.rounds}`);
          results.push(await verifyOnce(whose, flags, options.events));
        }
        return results;
      };
      const number = options.events.toLocaleString('en-US');
      const all: Verified[] = [];
      const row = async (what: string, flags: string[], atLeast?: number): Promise<Row> => {
        const results = await verify(what, flags);
        all.push(...results);
        return {
          measure: `verification of ${number} events, ${what}`,
          against: '',
          figures: results.map(({ perCpuSecond }) => perCpuSecond),
          unit: 'events/s a core',
          goal: atLeast === undefined ? null : { atLeast },
          details: {
            'by the clock': `${format(results[0]?.perSecond ?? 0)} events/s; a core's second counts the verifier's and PostgreSQL's`,
          },
        };
      };
      return [
        await row('export, hash chain', [...inExport, '--no-signatures'], 50_000),
        await row('export, with signatures', inExport, 8_000),
        await row('database, hash chain', [...inDatabase, '--no-signatures', '--no-state']),
        await row('database, with signatures and the state of each order', inDatabase),
        {
          measure: `memory of the verification of ${number} events`,
          against: '',
          figures: all.map(({ memory }) => memory),
          unit: 'MiB',
          goal: { atMost: 150 },
          details: { sealing: `${format(rate)} events/s by an otherwise idle service` },
        },
        {
          measure: `memory of the verification of ${number} events on the embedded database`,
          against: '',
          figures: (await verify('as a newcomer does', inDatabase, newcomer)).map(({ memory }) => memory),
          unit: 'MiB',
          goal: { atMost: 150 },
          details: {},
        },
        {
          measure: `memory of the export of ${number} events`,
          against: '',
          figures: [exported.memory],
          unit: 'MiB',
          goal: { atMost: 150 },
          details: {},
        },
      ];
    } finally {
      await server.dropDatabase(EMBEDDED_DATABASE);
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

async function verifyOnce(waybill: Waybill, flags: string[], events: number): Promise<Verified> {
  const before = cpuOf([waybill.postmaster]);
  const started = performance.now();
  const { memory, cpu } = await run(waybill, ['verify', '--json', ...flags]);
  const seconds = (performance.now() - started) / 1000;
  // Its connections must have ended, or PostgreSQL's share is found nowhere.
  await sleep(200);
  const cpuSeconds = (cpu + cpuOf([waybill.postmaster]) - before) / 1e6;
  return { perSecond: events / seconds, perCpuSecond: events / cpuSeconds, memory };
}

function addressesOf({ appUrl, ownerUrl, sealerUrl }: BenchDatabase): Record<string, string> {
  return { DATABASE_URL: appUrl, MIGRATION_DATABASE_URL: ownerUrl, SEALER_DATABASE_URL: sealerUrl };
}

/** Runs `waybill audit …`. @returns largest memory in MiB and CPU in microseconds, as last seen while it lived */
async function run({ settings }: Waybill, args: string[]): Promise<{ output: string; memory: number; cpu: number }> {
  const child = spawn(process.execPath, [join(ROOT, 'dist/src/cli/main.js'), 'audit', ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [output, memory, cpu] = ['', 0, 0];
  const keep = (text: string): void => void (output += text);
  child.stdout.setEncoding('utf8').on('data', keep);
  child.stderr.setEncoding('utf8').on('data', keep);
  const timer = setInterval(() => {
    memory = Math.max(memory, residentMegabytes(child.pid ?? 0));
    cpu = Math.max(cpu, cpuOf([child.pid ?? 0]));
  }, 50);
  await once(child, 'exit');
  clearInterval(timer);
  if (child.exitCode !== 0) throw new Error(`audit ${args.join(' ')} ended with ${child.exitCode}: ${output}`);
  return { output, memory, cpu };
}
