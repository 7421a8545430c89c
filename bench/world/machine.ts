import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './folders.js';
import { findWrk } from './tools.js';

export interface MachineFacts {
  cpu: string;
  cores: number;
  memoryGiB: number;
  kernel: string;
  node: string;
  /** Load of the last minute when the run began; near 0 on an idle machine. */
  loadBefore: number;
  commit: string;
  pgbench: string;
  http: string;
}

export function machineFacts(pgbench: string | null): MachineFacts {
  const wrk = findWrk();
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    loadBefore: loadavg()[0] ?? 0,
    commit: output('git', ['-C', ROOT, 'describe', '--always', '--dirty']),
    pgbench: pgbench ? output(pgbench, ['--version']) : 'not installed: a pg-based substitute drives the SQL',
    http: wrk ? `wrk ${/wrk (\S+)/.exec(output(wrk, ['--version']))?.[1]}` : `autocannon ${versionOf('autocannon')}`,
  };
}

function output(command: string, args: string[]): string {
  // wrk ends with 1 after its version.
  return spawnSync(command, args, { encoding: 'utf8' }).stdout?.trim() || 'unknown';
}

function versionOf(name: string): string {
  const file = join(ROOT, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
