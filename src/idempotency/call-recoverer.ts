import { randomUUID } from 'node:crypto';
import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { type PeriodicTask, PeriodicTasks } from '../background/index.js';
import { errorReport } from '../common/index.js';
import { DomainError } from '../problems/index.js';
import { type TransactionContext, TransactionRunner, SystemUsers } from '../database/index.js';
import { CallRunner } from './call-runner.js';
import { CallStore } from './call-store.js';
import { newLease } from './lease.js';
import { actingUnder } from './operation-key.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import { WorkResumers } from './work-resumers.js';

/** What /metrics shows of the recoverer in this process. */
export interface RecovererFigures {
  /** Abandoned calls that were brought to an end. */
  finished: number;
  /** Times that a call's result was still unknown, or could not be written. */
  postponed: number;
}

/** Rounds in the time of a lease. */
const ROUNDS_PER_LEASE = 4;
/** Calls that one process recovers at a time, since most of their time is waiting for the other system. */
const WORKERS = 4;

/**
 * Finishes calls whose worker died or didn't learn the result, without waiting for the client. Any number of processes
 * may do this on one database: each key has one worker at a time.
 */
@Injectable()
export class CallRecoverer {
  private readonly logger = new Logger(CallRecoverer.name);
  private readonly counted: RecovererFigures = { finished: 0, postponed: 0 };
  private readonly task: PeriodicTask<number>;

  constructor(
    tasks: PeriodicTasks,
    private readonly dataSource: DataSource,
    private readonly transactions: TransactionRunner,
    private readonly calls: CallStore,
    private readonly resumers: WorkResumers,
    private readonly runner: CallRunner,
    private readonly systemUsers: SystemUsers,
    @Inject(IDEMPOTENCY_POLICY) private readonly policy: IdempotencyPolicy,
  ) {
    this.task = tasks.add(CallRecoverer.name, {
      name: 'call-recovery',
      failure: 'Abandoned calls were not looked for',
      interval: (policy.leaseSeconds * 1000) / ROUNDS_PER_LEASE,
      first: 'within-interval',
      run: () => this.round(),
    });
  }

  get figures(): Readonly<RecovererFigures> {
    return this.counted;
  }

  /** No further rounds by schedule; waits for the present one. */
  stop(): Promise<void> {
    return this.task.stop();
  }

  /**
   * One round over all tenants, now.
   *
   * @returns how many calls were brought to an end
   */
  recover(): Promise<number> {
    return this.task.runNow();
  }

  private async round(): Promise<number> {
    const before = this.counted.finished;
    const tenants: { id: number }[] = await this.dataSource.query('SELECT waybill.tenant_ids() AS id');
    for (const { id } of tenants) await this.recoverTenant(id);
    return this.counted.finished - before;
  }

  private async recoverTenant(tenantId: number): Promise<void> {
    const context = await this.systemUsers.contextOf(tenantId, `recovery-${randomUUID()}`);
    if (!context) return;
    const finishAll = async (): Promise<void> => {
      while (await this.finishNext(context));
    };
    // Most tenants have nothing to recover: only who has is worth several workers.
    if (await this.finishNext(context)) await Promise.all(Array.from({ length: WORKERS }, finishAll));
  }

  /** @returns whether there was one */
  private async finishNext(context: TransactionContext): Promise<boolean> {
    const lease = newLease(this.policy.leaseSeconds);
    const call = await this.transactions.run(context, 'write', (tx) => this.calls.takeAbandoned(tx, lease));
    if (!call) return false;
    try {
      // Apart from the taking: work that can't be resumed then has its lease to wait for, and others get their turn.
      const work = await this.transactions.run(context, 'read', (tx) => this.resumers.resume(tx, call));
      await this.runner.carryOut(actingUnder(context, call.key), { ...call, lease }, work, {
        requestId: context.requestId,
      });
      this.counted.finished += 1;
    } catch (error) {
      this.counted.postponed += 1;
      this.logger.warn(`${call.resource} is not finished after ${call.attempt} attempts: ${describe(error)}`);
    }
    return true;
  }
}

function describe(error: unknown): string {
  const cause = error instanceof DomainError && error.cause instanceof Error ? error.cause : error;
  return errorReport(cause).message;
}
