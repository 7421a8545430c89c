import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, ApiClient } from '../support/api-client.js';
import { orderBody, type ProblemAnswer } from '../support/builders.js';
import { rows } from '../support/sql.js';
import { HANG_MS } from '../support/waiting.js';
import { findPaymentFaults } from './payment-checker.js';
import { below, type Random, seededRandom } from './storm-plan.js';
import { RestlessProcesses } from './storm-processes.js';
import { restartAmong, type Restarts } from './storm-restarts.js';

/*
 * Many payments with a provider of which half the calls go wrong, while two service processes are killed at random and
 * clients lose patience. What nobody asks for again is the recoverer's. Afterwards the books decide.
 */

export interface PaymentStormOptions {
  databaseUrl: string;
  superuserUrl: string;
  apiKey: string;
  payments: number;
  seed: number;
  clients?: number;
  restarts?: Restarts;
  progress?: (line: string) => void;
}

export interface PaymentStormReport {
  seed: number;
  payments: number;
  /** HTTP requests, retries included. */
  sent: number;
  restarts: number;
  /** Requests that their client gave up. */
  abandoned: number;
  /** How often each kind of answer came, `lost` being none. */
  answers: Record<string, number>;
  /** Requests that reached the provider, and how many of them it had seen before. */
  calls: { total: number; repeated: number };
  /** Minor units by the provider's books, and by the payments. */
  money: Record<string, number>;
  seconds: number;
  /** Seconds from the last request until nothing was open any more. */
  recoverySeconds: number;
  /** What is wrong; empty when nothing is. */
  faults: string[];
}

/** Short, so that a killed process's work is soon taken over. */
const LEASE = '2s';
/** Of a hundred: requests that are given up after the first try, payments that are declined, captured, refunded. */
const GIVEN_UP = 30;
const DECLINED = 10;
const CAPTURED = 85;
const REFUNDED = 50;

export async function runPaymentStorm(options: PaymentStormOptions): Promise<PaymentStormReport> {
  const {
    databaseUrl,
    superuserUrl,
    seed,
    payments,
    clients = 24,
    restarts = { pauseMs: 3000 },
    progress = () => undefined,
  } = options;
  const random = seededRandom(seed);
  const processes = await RestlessProcesses.start(databaseUrl, random, 2, { IDEMPOTENCY_LEASE: LEASE });
  const storm = new PaymentStorm(processes, options.apiKey, random, seed);
  const began = Date.now();
  let recoverySeconds = 0;
  try {
    const isDone = restartAmong(processes, restarts, payments);
    const numbers = Array.from({ length: payments }, (_, index) => index + 1).values();
    let done = 0;
    await Promise.all(
      Array.from({ length: clients }, async () => {
        for (const number of numbers) {
          await storm.pay(number);
          done += 1;
          if (done % 100 === 0) progress(`${done} of ${payments}, ${processes.restarts} restarts`);
          await isDone(done);
        }
      }),
    );
    const ended = Date.now();
    while ((await openKeys(superuserUrl)) > 0 && Date.now() - ended < 2 * HANG_MS) await sleep(250);
    recoverySeconds = (Date.now() - ended) / 1000;
  } finally {
    await processes.stop();
  }
  const { faults, calls, money } = await findPaymentFaults(superuserUrl);
  const { sent, abandoned, answers } = storm;
  const seconds = Math.round((Date.now() - began) / 1000);
  return {
    seed,
    payments,
    sent,
    restarts: processes.restarts,
    abandoned,
    answers,
    calls,
    money,
    seconds,
    recoverySeconds,
    faults: [...storm.faults, ...faults],
  };
}

async function openKeys(superuserUrl: string): Promise<number> {
  const [row] = await rows<{ count: number }>(
    superuserUrl,
    `SELECT count(*)::int AS count FROM waybill.idempotency_keys WHERE status = 'processing'`,
  );
  return row?.count ?? 0;
}

interface Made {
  id: string;
  status: string;
  amount: number;
}

class PaymentStorm {
  sent = 0;
  abandoned = 0;
  readonly answers: Record<string, number> = {};
  readonly faults: string[] = [];

  constructor(
    private readonly processes: RestlessProcesses,
    private readonly apiKey: string,
    private readonly random: Random,
    private readonly seed: number,
  ) {}

  /** An order, a payment for it, and what becomes of that. */
  async pay(number: number): Promise<void> {
    const name = `payment-${this.seed}-${number}`;
    const order = await this.insist('/v1/orders', `${name}-order`, orderBody({ externalRef: name }), false);
    if (order?.status !== 201) {
      this.faults.push(`${name}: the order could not be placed: ${order?.status} ${order?.text}`);
      return;
    }
    const paymentMethod = this.isDrawn(DECLINED) ? 'tok_declined_insufficient_funds' : 'tok_chaos';
    const payment = await this.insist(`/v1/orders/${order.body.id}/payments`, `${name}-hold`, { paymentMethod });
    if (payment?.status !== 201) return;
    const path = `/v1/payments/${payment.body.id}`;
    if (!this.isDrawn(CAPTURED)) {
      await this.insist(`${path}/voids`, `${name}-void`, undefined);
      return;
    }
    const amount = 1 + below(this.random, payment.body.amount);
    const captured = await this.insist(`${path}/captures`, `${name}-take`, { amount });
    if (captured?.status !== 201 || !this.isDrawn(REFUNDED)) return;
    const refunds = [0, 1].map((part) =>
      this.insist(`${path}/refunds`, `${name}-refund-${part}`, { amount: Math.ceil(amount / 2) }),
    );
    await Promise.all(refunds);
  }

  /** Sends until there is a lasting answer, or gives up; null when the client never learns the result. */
  private async insist(
    path: string,
    key: string,
    body: unknown,
    mayGiveUp = true,
  ): Promise<Answer<Made & ProblemAnswer> | null> {
    const isImpatient = mayGiveUp && this.isDrawn(GIVEN_UP);
    const deadline = Date.now() + HANG_MS;
    while (Date.now() < deadline) {
      const answer = await this.sendOnce(path, key, body);
      const isLasting = answer && answer.status < 500 && answer.body?.code !== 'idempotency-key-in-flight';
      if (isLasting) return answer;
      if (isImpatient && answer !== undefined) break;
      await sleep(50 + below(this.random, 400));
    }
    this.abandoned += 1;
    return null;
  }

  /** @returns null when the answer was lost, undefined when nothing was sent */
  private async sendOnce(
    path: string,
    key: string,
    body: unknown,
  ): Promise<Answer<Made & ProblemAnswer> | null | undefined> {
    const address = this.processes.address(this.random);
    if (address === null) return undefined;
    this.sent += 1;
    try {
      const client = new ApiClient(address, this.apiKey);
      const answer = await client.post<Made & ProblemAnswer>(path, body, { 'idempotency-key': key });
      if (answer.status >= 500 && answer.status !== 503) this.faults.push(`${key}: ${answer.status} ${answer.text}`);
      this.count(answer.body?.code ?? `${answer.status}${answer.headers.has('idempotency-replayed') ? ' replay' : ''}`);
      return answer;
    } catch {
      // The process was killed: nobody knows what became of the request.
      this.count('lost');
      return null;
    }
  }

  private isDrawn(percent: number): boolean {
    return below(this.random, 100) < percent;
  }

  private count(kind: string): void {
    this.answers[kind] = (this.answers[kind] ?? 0) + 1;
  }
}
