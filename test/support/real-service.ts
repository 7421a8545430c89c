import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KillPoint } from '../../src/database/index.js';
import { answerKillPoints } from './answer-kill-points.js';
import { HANG_MS } from './waiting.js';

const ROOT = join(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'dist/src/main.js');

/** One entry of a service's log. */
export interface ServiceLogEntry {
  level: string;
  msg: string;
  baseUrl?: string;
  event?: string;
  [member: string]: unknown;
}

/** A service in a process of its own, for tests of what can only be seen from outside. */
export interface RealService {
  readonly child: ChildProcess;
  readonly log: readonly ServiceLogEntry[];
  /** What it wrote on standard error. */
  errors(): string;
  /** The first entry that matches, as soon as it is there. */
  entry(matches: (entry: ServiceLogEntry) => boolean, patienceMs?: number): Promise<ServiceLogEntry>;
  /** Where it answers; waits for it to be so. */
  baseUrl(patienceMs?: number): Promise<string>;
  /** Resolves with the exit code, or with the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** Ends it however it takes. */
  kill(signal?: NodeJS.Signals): Promise<void>;
}

export interface RealServiceOptions {
  env: Record<string, string>;
  /** A program that starts Node, with its arguments, such as faketime. */
  wrapper?: readonly string[];
  /** Options for Node itself. */
  nodeOptions?: readonly string[];
  /** Called when the service reaches a kill point; it waits there until the promise is settled. */
  onKillPoint?: (point: KillPoint) => Promise<void>;
}

/** Starts the built service with these settings and no others. */
export function startRealService({
  env,
  wrapper = [],
  nodeOptions = [],
  onKillPoint,
}: RealServiceOptions): RealService {
  if (!existsSync(MAIN)) throw new Error(`${MAIN} is missing: run the tests by "npm test", which builds it`);
  const [command = process.execPath, ...rest] = [...wrapper, process.execPath, ...nodeOptions, MAIN];
  const child = spawn(command, rest, {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe', ...(onKillPoint ? (['ipc'] as const) : [])],
    env: {
      PATH: process.env.PATH,
      HOST: '127.0.0.1',
      PORT: '0',
      LOG_FORMAT: 'json',
      ...(onKillPoint ? { WAYBILL_KILL_POINTS: 'parent' } : {}),
      ...env,
    },
  });
  if (onKillPoint) answerKillPoints(child, onKillPoint);
  const log: ServiceLogEntry[] = [];
  let errors = '';
  createInterface({ input: streamOf(child.stdout) }).on('line', (line) => log.push(readEntry(line)));
  streamOf(child.stderr)
    .setEncoding('utf8')
    .on('data', (text: string) => (errors += text));
  const ended = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? code ?? 0));
  });

  const entry: RealService['entry'] = async (matches, patienceMs = HANG_MS) => {
    for (const until = Date.now() + patienceMs; Date.now() < until; await sleep(20)) {
      const found = log.find(matches);
      if (found) return found;
      const end = child.exitCode ?? child.signalCode;
      if (end !== null) throw new Error(`the service ended with ${end}: ${errors}`);
    }
    throw new Error(`the service did not log it in ${patienceMs} ms; last: ${JSON.stringify(log.at(-1))} ${errors}`);
  };
  return {
    child,
    log,
    errors: () => errors,
    entry,
    baseUrl: async (patienceMs) => (await entry((line) => line.baseUrl !== undefined, patienceMs)).baseUrl ?? '',
    ended,
    kill: async (signal = 'SIGKILL') => {
      child.kill('SIGCONT');
      child.kill(signal);
      await ended;
    },
  };
}

function streamOf(stream: Readable | null): Readable {
  if (!stream) throw new Error('the service has no output');
  return stream;
}

function readEntry(line: string): ServiceLogEntry {
  try {
    return JSON.parse(line) as ServiceLogEntry;
  } catch {
    return { level: 'not-json', msg: line };
  }
}
