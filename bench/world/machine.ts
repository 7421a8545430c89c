import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './folders.js';

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
  autocannon: string;
}

export function machineFacts(pgbench: string | null): MachineFacts {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    loadBefore: loadavg()[0] ?? 0,
    commit: output('git', ['-C', ROOT, 'describe', '--always', '--dirty']),
    pgbench: pgbench ? output(pgbench, ['--version']) : 'not installed: a pg-based substitute drives the SQL',
    autocannon: versionOf('autocannon'),
  };
}

function output(command: string, args: string[]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown';
  }
}

function versionOf(name: string): string {
  const file = join(ROOT, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
