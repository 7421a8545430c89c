import { Inject, Injectable } from '@nestjs/common';
import { DomainError, isKeptUnderKey, type ProblemContext, toProblem, unavailable } from '../problems/index.js';
import { postgresError, atKillPoint, TransactionRunner, type TransactionContext } from '../database/index.js';
import { CallStore } from './call-store.js';
import type { ResumedWork, Settlement } from './external-work.js';
import { IdempotencyKeyInFlight } from './idempotency.errors.js';
import { KeyStore } from './key-store.js';
import { isOver, type Lease, waitBeforeRepeat } from './lease.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import { answerOfProblem, bytesOf, type StoredAnswer } from './stored-answer.js';

/** A key whose first transaction is committed, and who works on it under which lease. */
export interface HeldKey {
  key: string;
  lease: Lease;
  resource: string;
  /** 1 for the worker that began it. */
  attempt: number;
}

/** SQLSTATE of a statement on a key that another worker has taken over. */
const KEY_LOST = 'WB020';

/** From the committed first transaction to the stored answer: the call, then the second transaction. */
@Injectable()
export class CallRunner {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly keys: KeyStore,
    private readonly calls: CallStore,
    @Inject(IDEMPOTENCY_POLICY) private readonly policy: IdempotencyPolicy,
  ) {}

  /**
   * @returns the answer, once it is committed
   * @throws DomainError `unavailable` when the call's result is unknown: the key stays open for a retry;
   *   `idempotency-key-in-flight` when another worker has taken over: nothing of this one was committed
   */
  async carryOut(
    context: TransactionContext,
    held: HeldKey,
    work: ResumedWork,
    place: ProblemContext,
  ): Promise<StoredAnswer> {
    const outcome = await this.call(context, held, work);
    try {
      // Repeats itself after a serialization failure or a deadlock. The call is not part of it.
      return await this.transactions.run(context, 'write', async (tx) => {
        const answer = answerOfSettlement(await work.settle(tx, outcome), place);
        const { key, lease, resource } = held;
        tx.runAtCommit(this.keys.completeLeased(context.tenantId, key, lease, answer, resource));
        return answer;
      });
    } catch (error) {
      if (postgresError(error)?.code === KEY_LOST) throw new IdempotencyKeyInFlight(undefined);
      throw error;
    }
  }

  private async call(context: TransactionContext, held: HeldKey, work: ResumedWork): Promise<unknown> {
    const { key, lease, attempt } = held;
    await atKillPoint('call.before');
    if (isOver(lease)) throw new IdempotencyKeyInFlight(undefined);
    const { leaseSeconds, callSeconds = leaseSeconds / 2 } = this.policy;
    const signal = AbortSignal.timeout(callSeconds * 1000);
    try {
      const outcome = await Promise.race([work.call(signal), whenAborted(signal)]);
      await atKillPoint('call.after');
      return outcome;
    } catch (cause) {
      const wait = waitBeforeRepeat(leaseSeconds, attempt);
      await this.transactions.run(context, 'write', (tx) => this.calls.putBack(tx, key, lease, wait));
      const detail =
        'The other system has not said yet what became of this. Send the same request with the same key again.';
      throw new DomainError(unavailable, detail, undefined, { retryAfterSeconds: wait, cause });
    }
  }
}

/** Whatever the callee does with the signal, the caller waits no longer than this. */
function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

function answerOfSettlement(settlement: Settlement, place: ProblemContext): StoredAnswer {
  if ('problem' in settlement) {
    if (!isKeptUnderKey(settlement.problem)) {
      throw new Error(`settle() returned ${settlement.problem.code}, which keys don't keep`);
    }
    return answerOfProblem(toProblem(settlement.problem, place));
  }
  const { body, type } = bytesOf(settlement.body);
  return { status: settlement.status, headers: { ...settlement.headers, 'content-type': type }, body };
}
