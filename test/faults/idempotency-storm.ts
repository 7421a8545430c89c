import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, ApiClient } from '../support/api-client.js';
import { type Order, orderBody, type ProblemAnswer } from '../support/builders.js';
import { HANG_MS } from '../support/waiting.js';
import { findStormFaults, type StormRecord } from './storm-checker.js';
import { below, type PlannedRequest, planRequests, type Random, seededRandom } from './storm-plan.js';
import { RestlessProcesses } from './storm-processes.js';
import { restartAmong, type Restarts } from './storm-restarts.js';

/*
 * Many clients, few keys each, sent one to four times, in parallel or one after the other, sometimes with another body,
 * while two service processes are killed at random. Afterwards the database is read, and it must agree with every answer.
 */

export interface StormOptions {
  databaseUrl: string;
  superuserUrl: string;
  apiKey: string;
  requests: number;
  seed: number;
  clients?: number;
  restarts?: Restarts;
  progress?: (line: string) => void;
}

export interface StormReport {
  seed: number;
  requests: number;
  /** HTTP requests, retries included. */
  sent: number;
  restarts: number;
  /** How often each kind of answer came, `lost` being none. */
  answers: Record<string, number>;
  seconds: number;
  /** What is wrong; empty when nothing is. */
  faults: string[];
}

export async function runStorm(options: StormOptions): Promise<StormReport> {
  const {
    databaseUrl,
    seed,
    requests,
    clients = 16,
    restarts = { pauseMs: 2000 },
    progress = () => undefined,
  } = options;
  const random = seededRandom(seed);
  const plan = planRequests(random, requests, seed);
  const processes = await RestlessProcesses.start(databaseUrl, random, 2);
  const storm = new Storm(processes, options.apiKey, random);
  const began = Date.now();
  const records: StormRecord[] = [];
  try {
    const isDone = restartAmong(processes, restarts, requests);
    const queue = plan.values();
    await Promise.all(
      Array.from({ length: clients }, async () => {
        for (const planned of queue) {
          records.push(await storm.carryOut(planned));
          if (records.length % 1000 === 0) progress(`${records.length} of ${requests}, ${processes.restarts} restarts`);
          await isDone(records.length);
        }
      }),
    );
  } finally {
    await processes.stop();
  }
  return {
    seed,
    requests,
    sent: storm.sent,
    restarts: processes.restarts,
    answers: storm.answers,
    seconds: Math.round((Date.now() - began) / 1000),
    faults: [...storm.faults, ...(await findStormFaults(options.superuserUrl, records))],
  };
}

class Storm {
  sent = 0;
  readonly answers: Record<string, number> = {};
  readonly faults: string[] = [];
  /** Orders that may be moved; each is used for one `move`. */
  private readonly movable: string[] = [];

  constructor(
    private readonly processes: RestlessProcesses,
    private readonly apiKey: string,
    private readonly random: Random,
  ) {}

  async carryOut(planned: PlannedRequest): Promise<StormRecord> {
    const orderId = planned.kind === 'move' ? this.movable.pop() : undefined;
    const path = orderId === undefined ? '/v1/orders' : `/v1/orders/${orderId}/transitions`;
    const bodies = [0, 1].map((variant) => bodyOf(planned.key, variant, orderId));
    const sendings = planned.variants.map((variant) => () => this.insist(path, planned.key, bodies[variant]));
    const answers: Answer<Order & ProblemAnswer>[] = [];
    if (planned.isParallel) answers.push(...(await Promise.all(sendings.map((send) => send()))));
    else for (const send of sendings) answers.push(await send());
    const placed = answers.find(({ status, body }) => status === 201 && body.status === 'pending');
    if (placed && planned.kind === 'place') this.movable.push(placed.body.id);
    return {
      key: planned.key,
      orderId,
      sendings: answers.map(({ status, text, body }, index) => ({
        variant: planned.variants[index] ?? 0,
        status,
        code: body?.code,
        text,
      })),
    };
  }

  /** Sends until there is a lasting answer: not after no answer at all, in flight, or a 5xx. */
  private async insist(path: string, key: string, body: unknown): Promise<Answer<Order & ProblemAnswer>> {
    const deadline = Date.now() + HANG_MS;
    for (;;) {
      const answer = await this.sendOnce(path, key, body);
      if (answer && answer.status < 500 && answer.body?.code !== 'idempotency-key-in-flight') return answer;
      if (Date.now() > deadline) {
        this.faults.push(
          `${key}: no lasting answer, the last one is ${answer?.status ?? 'none'} ${answer?.text ?? ''}`,
        );
        return answer ?? { status: 0, headers: new Headers(), text: '', body: {} as Order & ProblemAnswer };
      }
      await sleep(20 + below(this.random, 150));
    }
  }

  private async sendOnce(path: string, key: string, body: unknown): Promise<Answer<Order & ProblemAnswer> | null> {
    const address = this.processes.address(this.random);
    if (address === null) return null;
    this.sent += 1;
    try {
      const client = new ApiClient(address, this.apiKey);
      const answer = await client.post<Order & ProblemAnswer>(path, body, { 'idempotency-key': key });
      this.count(answer.body?.code ?? `${answer.status}${answer.headers.has('idempotency-replayed') ? ' replay' : ''}`);
      return answer;
    } catch {
      // The process was killed: nobody knows what became of the request. That is what the keys are for.
      this.count('lost');
      return null;
    }
  }

  private count(kind: string): void {
    this.answers[kind] = (this.answers[kind] ?? 0) + 1;
  }
}

/** Nothing in it is unique in the database, so that only the key stands between one order and two. */
function bodyOf(key: string, variant: number, orderId: string | undefined): Record<string, unknown> {
  const metadata = { storm: key, variant };
  if (orderId === undefined) return orderBody({ externalRef: undefined, metadata });
  // A third of the orders get an impossible step, whose problem is kept.
  const to = Number.parseInt(key.slice(0, 2), 16) < 85 ? 'delivered' : 'confirmed';
  return { to, metadata };
}
