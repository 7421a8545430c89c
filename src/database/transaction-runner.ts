import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { PoolClient, QueryResultRow } from 'pg';
import { DataSource, type QueryRunner } from 'typeorm';
import { AfterCommit, type AfterCommitTask } from './after-commit.js';
import { contextStatement, type TransactionContext } from './context.js';
import { atKillPoint } from './kill-points.js';
import { isWorthRepeating } from './pg-errors.js';
import { ReadTransaction } from './read-transaction.js';
import type { BoundStatement } from './statement.js';
import { StatementQueue } from './statement-queue.js';
import { markTransaction, type TenantTransaction } from './tenant-transaction.js';
import { ConnectionTransaction, type TransactionKind } from './transaction.js';
import { WriteTransaction } from './write-transaction.js';

const ATTEMPTS = 4;

/** The rows of the statement that opened a transaction. */
type Opened = Promise<readonly QueryResultRow[]>;

/** What opens a transaction, and what is done in it. */
interface Job<T> {
  context: TransactionContext;
  opening: BoundStatement;
  /** Whether statements wait for the answer to `opening`; see `NamedStatement.isRefusedUnclaimed`. */
  isClaim: boolean;
  work: (tx: WriteTransaction, opened: Opened) => Promise<T>;
}

/** Opens tenant transactions over the pool of requests: context first, then the work, then COMMIT. */
@Injectable()
export class TransactionRunner {
  constructor(
    private readonly dataSource: DataSource,
    private readonly afterCommit: AfterCommit,
  ) {}

  /**
   * Runs `work` in one transaction. After a deadlock, a serialization failure or a collision of random numbers it runs
   * again from the start, so `work` must have no effect outside the transaction.
   */
  run<T>(context: TransactionContext, kind: TransactionKind, work: (tx: TenantTransaction) => Promise<T>): Promise<T> {
    if (kind === 'read') return this.read(context, work);
    return this.write({ context, opening: contextStatement(context), isClaim: false, work });
  }

  /**
   * The same where a claim opens the transaction. `work` begins before the claim is answered; until then its statements wait,
   * but for those that PostgreSQL itself refuses without a claim: these leave together with it.
   *
   * @param claim sets the context, too, as `waybill.set_context` does
   */
  runClaiming<T>(context: TransactionContext, claim: BoundStatement, work: Job<T>['work']): Promise<T> {
    return this.write({ context, opening: claim, isClaim: true, work });
  }

  /** A transaction that only reads and begins when it is used. Whoever asks for it ends it. */
  beginReading(context: TransactionContext): ReadTransaction {
    return new ReadTransaction(context, () => this.dataSource.createQueryRunner(), this.afterCommit);
  }

  /** The rows of a statement whose transaction is rolled back at once: neither an effect nor a lock is left of it. */
  runAndRollBack(statement: BoundStatement): Promise<readonly QueryResultRow[]> {
    return this.overConnection(async (_runner, client) => {
      const transaction = new ConnectionTransaction(new StatementQueue(client), 'write');
      transaction.begin();
      try {
        return await transaction.runAndRollBack(statement);
      } catch (error) {
        await transaction.rollBack(client);
        throw error;
      }
    });
  }

  private async read<T>(context: TransactionContext, work: (tx: TenantTransaction) => Promise<T>): Promise<T> {
    const tx = this.beginReading(context);
    try {
      return await work(tx);
    } finally {
      tx.end();
    }
  }

  private async write<T>(job: Job<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const { result, tasks } = await this.attempt(job);
        // With the connection given back: a task may want one, and the pool may have a single one.
        this.afterCommit.start(tasks);
        return result;
      } catch (error) {
        if (attempt === ATTEMPTS || !isWorthRepeating(error)) throw error;
        await sleep(Math.random() * 10 * 2 ** attempt);
      }
    }
  }

  private attempt<T>({ context, opening, isClaim, work }: Job<T>) {
    return this.overConnection(async (runner, client): Promise<{ result: T; tasks: readonly AfterCommitTask[] }> => {
      const statements = new StatementQueue(client);
      const transaction = new ConnectionTransaction(statements, 'write');
      transaction.begin();
      const opened = statements.run(opening).then(({ rows }) => rows);
      const tx = new WriteTransaction(context, { runner, statements }, isClaim ? opened : null);
      try {
        const result = await bothWell(opened, async () => work(tx, opened));
        if (tx.endsWithRollback) {
          await transaction.rollBack(client);
          return { result, tasks: [] };
        }
        await atKillPoint('commit.before');
        await transaction.commit(tx.takeClosing());
        await atKillPoint('commit.after');
        return { result, tasks: tx.tasksAfterCommit };
      } catch (error) {
        await transaction.rollBack(client);
        throw error;
      }
    });
  }

  private async overConnection<T>(work: (runner: QueryRunner, client: PoolClient) => Promise<T>): Promise<T> {
    const runner = this.dataSource.createQueryRunner();
    try {
      const client = (await runner.connect()) as PoolClient;
      markTransaction(runner, true);
      return await work(runner, client);
    } finally {
      markTransaction(runner, false);
      await runner.release();
    }
  }
}

/** Both the opening and the work must have gone well; when the opening failed, it is the cause. */
async function bothWell<T>(opened: Opened, work: () => Promise<T>): Promise<T> {
  const [opening, done] = await Promise.allSettled([opened, work()]);
  if (opening.status === 'rejected') throw opening.reason;
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}
