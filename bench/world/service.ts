import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ROOT } from './folders.js';
import type { BenchDatabase } from './server.js';

/** A service process under measurement. */
export interface BenchService {
  baseUrl: string;
  pid: number;
  stop(): Promise<void>;
}

export interface ServiceOptions {
  /** What Node gets; as `npm start` gives it when left out. */
  program?: string[];
  env?: Record<string, string>;
}

const READY_TIMEOUT_MS = 30_000;

/** Starts the built service on a database and waits until it is ready. */
export async function startService(database: BenchDatabase, options: ServiceOptions = {}): Promise<BenchService> {
  return startProgram(options.program ?? startArguments(), {
    DATABASE_URL: database.appUrl,
    SEALER_DATABASE_URL: database.sealerUrl,
    LOG_LEVEL: 'error',
    WAYBILL_DATA_DIR: join(ROOT, '.waybill/bench/service'),
    // One address sends everything here, as it would behind a proxy that isn't trusted.
    RATE_LIMIT: 'off',
    AUDIT_SEAL_INTERVAL: 'off',
    ...options.env,
  });
}

/** What `npm start` gives Node: its flags and the program, which is the built service when left out. */
export function startArguments(program = join(ROOT, 'dist/src/main.js')): string[] {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: { start: string } };
  const flags = scripts.start.split(' ').filter((word) => word.startsWith('--'));
  return [...flags, program];
}

/** Starts a Node program that serves HTTP on PORT, and waits for its /health/ready. */
export async function startProgram(args: string[], env: Record<string, string>): Promise<BenchService> {
  const port = await freePort();
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', PORT: String(port), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output.push(text);
      if (output.length > 200) output.shift();
    });
  }
  const baseUrl = `http://127.0.0.1:${port}`;
  try {
    await untilReady(baseUrl, child);
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`${args.join(' ')} did not start: ${output.join('')}`, { cause: error });
  }
  return { baseUrl, pid: child.pid ?? 0, stop: () => end(child) };
}

async function untilReady(baseUrl: string, child: ChildProcess): Promise<void> {
  const until = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    const answer = await fetch(`${baseUrl}/health/ready`).catch(() => null);
    if (answer?.ok) return;
    await sleep(10);
  }
  throw new Error('it was not ready in time');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await Promise.race([ended, sleep(10_000)]);
  if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  server.close();
  await once(server, 'close');
  return port;
}
