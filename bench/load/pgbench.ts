import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuOf } from '../world/processes.js';
import type { Sample } from './sample.js';
import type { SqlLoad } from './sql-load.js';
import { driveSql } from './sql-substitute.js';

const BACKENDS_END_MS = 200;

/** Drives SQL with pgbench, prepared, on two threads; with a substitute in this process where there is none. */
export async function drivePgbench(load: SqlLoad): Promise<Sample> {
  if (load.pgbench === null) return driveSql(load);
  const folder = await mkdtemp(join(tmpdir(), 'waybill-bench-'));
  try {
    const script = join(folder, 'script.sql');
    await writeFile(script, load.script);
    return await run(load.pgbench, script, load);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function run(pgbench: string, script: string, { url, clients, seconds, postgres }: SqlLoad): Promise<Sample> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const threads = Math.min(2, clients);
  const args = ['-n', '-M', 'prepared', '-c', clients, '-j', threads, '-T', Math.max(1, Math.round(seconds))];
  const at = ['-h', hostname, '-p', port, '-U', username, '-f', script, pathname.slice(1)];
  const before = cpuOf([postgres]);
  let load = 0;
  const output = await new Promise<string>((resolve, reject) => {
    const child = execFile(
      pgbench,
      [...args, ...at].map(String),
      { env: { ...process.env, PGPASSWORD: decodeURIComponent(password), PGOPTIONS: '-c timezone=UTC' } },
      (error, stdout, stderr) => {
        clearInterval(watch);
        if (error) reject(new Error(`pgbench failed: ${stderr}`));
        else resolve(stdout);
      },
    );
    // Its own CPU can only be read while it lives; the last reading misses less than a tenth of a second.
    const watch = setInterval(() => (load = Math.max(load, cpuOf([child.pid ?? 0]))), 50);
  });
  // Backends must have ended and been waited for, or their CPU is found nowhere.
  await sleep(BACKENDS_END_MS);
  const find = (pattern: RegExp): number => Number(pattern.exec(output)?.[1] ?? Number.NaN);
  const failed = find(/number of failed transactions: (\d+)/);
  if (failed > 0) throw new Error(`pgbench: ${failed} transactions failed`);
  const count = find(/number of transactions actually processed: (\d+)/);
  if (!(count > 0)) throw new Error(`pgbench did nothing in ${seconds} s: ${output}`);
  return {
    count,
    perSecond: find(/tps = ([\d.]+) \(without initial/),
    cpu: { service: 0, postgres: (cpuOf([postgres]) - before) / count, load: load / count },
  };
}
