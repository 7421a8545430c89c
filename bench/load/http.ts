import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { cpuOf } from '../world/processes.js';
import { findWrk } from '../world/tools.js';
import type { Sample } from './sample.js';

export interface HttpRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

export interface HttpLoad {
  baseUrl: string;
  connections: number;
  seconds: number;
  requests: HttpRequest[];
  /** Whether a request may be sent again when all have been: right for reads and replays, wrong for writes. */
  mayRepeat: boolean;
  /** Requests a second; as many as possible when left out. */
  rate?: number;
  /** Groups whose CPU is counted. */
  service: readonly number[];
  postgres: number;
}

interface Outcome {
  count: number;
  seconds: number;
  failures: [status: number | string, count: number][];
  repeated: boolean;
  errors: number;
  p50: number;
  p99: number;
  error?: string;
}

/**
 * Drives HTTP in a process of its own: with wrk where it is installed, with autocannon elsewhere and at a given rate.
 * @throws Error when an answer isn't a 2xx, or requests ran out that must not be repeated
 */
export async function driveHttp(load: HttpLoad): Promise<Sample> {
  const worker = fork(join(import.meta.dirname, 'http-worker.mjs'));
  await once(worker, 'message');
  const { baseUrl, connections, seconds, requests, rate } = load;
  worker.send({ wrk: findWrk(), baseUrl, connections, seconds, requests, rate });
  const [prepared] = (await once(worker, 'message')) as ['prepared' | Outcome];
  if (prepared !== 'prepared') throw new Error(`the load can't be prepared: ${prepared.error}`);
  const before = cpuNow(load, worker.pid);
  worker.send('begin');
  const [outcome] = (await once(worker, 'message')) as [Outcome];
  const after = cpuNow(load, worker.pid);
  await once(worker, 'exit');
  check(outcome, load);
  const each = (group: 'service' | 'postgres' | 'load'): number => (after[group] - before[group]) / outcome.count;
  return {
    count: outcome.count,
    perSecond: outcome.count / outcome.seconds,
    cpu: { service: each('service'), postgres: each('postgres'), load: each('load') },
    latency: { p50: outcome.p50, p99: outcome.p99 },
  };
}

function cpuNow({ service, postgres }: HttpLoad, worker = 0): Sample['cpu'] {
  return { service: cpuOf(service), postgres: cpuOf([postgres]), load: cpuOf([worker]) };
}

function check({ error, failures, errors, repeated }: Outcome, { mayRepeat, requests }: HttpLoad): void {
  if (error) throw new Error(`the load generator failed: ${error}`);
  if (failures.length > 0) throw new Error(`answers other than 2xx: ${JSON.stringify(failures)}`);
  if (errors > 0) throw new Error(`${errors} connections failed or timed out`);
  if (repeated && !mayRepeat) throw new Error(`${requests.length} prepared requests were not enough`);
}
