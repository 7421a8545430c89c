import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { KillPoint } from '../../src/database/index.js';
import { answerKillPoints } from './answer-kill-points.js';

export interface ServiceProcessOptions {
  /** Address of the database as the app role. */
  databaseUrl: string;
  env?: Record<string, string>;
  /** Called when the service reaches a kill point; it waits there until the promise is settled. */
  onKillPoint?: (point: KillPoint) => Promise<void> | void;
}

/** The built service in a process of its own, on a database that is there already. */
export interface ServiceProcess {
  baseUrl: string;
  pid: number;
  /** Everything that it wrote to standard output and standard error so far. */
  output(): string;
  /** Sends a signal and waits until the process is gone; after `patienceMs` it is killed for good. */
  kill(signal: 'SIGKILL' | 'SIGTERM', patienceMs?: number): Promise<void>;
}

const ROOT = join(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'dist/src/main.js');

export async function startServiceProcess({
  databaseUrl,
  env = {},
  onKillPoint,
}: ServiceProcessOptions): Promise<ServiceProcess> {
  if (!existsSync(MAIN)) throw new Error(`${MAIN} is missing: run the tests by "npm test", which builds it`);
  const child = fork(MAIN, {
    cwd: ROOT,
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      PATH: process.env.PATH,
      PORT: '0',
      LOG_LEVEL: 'fatal',
      DATABASE_URL: databaseUrl,
      // Empty rather than missing: a developer's .env must not migrate or seal the test's database.
      MIGRATION_DATABASE_URL: '',
      SEALER_DATABASE_URL: '',
      ...(onKillPoint ? { WAYBILL_KILL_POINTS: 'parent' } : {}),
      ...env,
    },
  });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  if (onKillPoint) answerKillPoints(child, onKillPoint);
  return {
    baseUrl: await addressOf(child),
    output: () => output.join(''),
    pid: child.pid ?? 0,
    kill: async (signal, patienceMs) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill(signal);
      const impatience = patienceMs && setTimeout(() => child.kill('SIGKILL'), patienceMs);
      await gone;
      clearTimeout(impatience);
    },
  };
}

/** The service prints where it serves once it does. */
async function addressOf(child: ChildProcess): Promise<string> {
  let output = '';
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      const [, address] = /Waybill serves (\S+)/.exec(output) ?? [];
      if (address) resolve(address);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', (code, signal) => reject(new Error(`The service ended with ${code ?? signal}:\n${output}`)));
  });
}
