import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { PoolClient, QueryResultRow } from 'pg';
import { DataSource, type QueryRunner } from 'typeorm';
import { AfterCommit, type AfterCommitTask } from './after-commit.js';
import type { TransactionContext } from './context.js';
import { reach } from './kill-points.js';
import { isWorthRepeating } from './pg-errors.js';
import type { BoundStatement, NamedStatement } from './statement.js';
import { StatementQueue } from './statement-queue.js';
import { TenantTransaction } from './tenant-transaction.js';

export type AccessMode = 'read' | 'write';

const BEGIN: Record<AccessMode, BoundStatement> = {
  // All statements of one answer see the same moment.
  read: { name: 'begin_read', text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', values: [] },
  write: { name: 'begin_write', text: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE', values: [] },
};
const COMMIT: BoundStatement = { name: 'COMMIT', text: 'COMMIT', values: [] };
const ROLLBACK: BoundStatement = { name: 'ROLLBACK', text: 'ROLLBACK', values: [] };

const SET_CONTEXT: NamedStatement = {
  name: 'set_context',
  text: 'SELECT waybill.set_context($1, $2, $3, $4)',
};

const ATTEMPTS = 4;

/** What is to be done, with the rows that the opening statement returned. */
export type TransactionWork<T> = (tx: TenantTransaction, opened: readonly QueryResultRow[]) => Promise<T>;

/** The same without waiting for the opening statement: what it sends first leaves together with BEGIN. */
export type EarlyWork<T> = (tx: TenantTransaction, opened: Promise<readonly QueryResultRow[]>) => Promise<T>;

/** Opens tenant transactions: context first, then the work, then a COMMIT that is known to have been one. */
@Injectable()
export class TransactionRunner {
  constructor(
    private readonly dataSource: DataSource,
    private readonly afterCommit: AfterCommit,
  ) {}

  /**
   * Runs `work` in one transaction. After a deadlock, a serialization failure or a collision of random numbers it runs
   * again from the start, so `work` must have no effect outside the transaction.
   *
   * @param opening leaves together with BEGIN. It sets the context, as `waybill.set_context` does, which is the default.
   */
  run<T>(
    context: TransactionContext,
    mode: AccessMode,
    work: TransactionWork<T>,
    opening?: BoundStatement,
  ): Promise<T> {
    // The context says nothing that anybody would wait for.
    if (!opening) return this.runEarly(context, mode, (tx) => work(tx, []), contextStatement(context));
    return this.runEarly(context, mode, async (tx, opened) => work(tx, await opened), opening);
  }

  /**
   * Like `run`, but `work` begins before PostgreSQL has answered to the opening statement. It may send a statement that
   * depends on it only where the database itself refuses that statement otherwise.
   */
  async runEarly<T>(
    context: TransactionContext,
    mode: AccessMode,
    work: EarlyWork<T>,
    opening: BoundStatement,
  ): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const { result, tasks } = await this.runOnce(context, mode, work, opening);
        // With the connection given back: a task may want one, and the pool may have a single one.
        this.afterCommit.start(tasks);
        return result;
      } catch (error) {
        if (attempt === ATTEMPTS || !isWorthRepeating(error)) throw error;
        await sleep(Math.random() * 10 * 2 ** attempt);
      }
    }
  }

  /**
   * What an opening statement answers, and nothing else: the transaction is rolled back in the same packet, so neither an effect
   * nor a lock is left of it.
   */
  async peek(opening: BoundStatement): Promise<readonly QueryResultRow[]> {
    const runner = this.dataSource.createQueryRunner();
    try {
      const client: PoolClient = await runner.connect();
      const statements = new StatementQueue(client);
      statements.runAhead(BEGIN.write);
      try {
        const [{ rows }] = await Promise.all([statements.run(opening), statements.run(ROLLBACK)]);
        return rows;
      } catch (error) {
        await rollback(client);
        throw error;
      }
    } finally {
      await runner.release();
    }
  }

  private async runOnce<T>(
    context: TransactionContext,
    mode: AccessMode,
    work: EarlyWork<T>,
    opening: BoundStatement,
  ): Promise<{ result: T; tasks: readonly AfterCommitTask[] }> {
    const runner = this.dataSource.createQueryRunner();
    const release = (): Promise<void> => {
      markTransaction(runner, false);
      return runner.release();
    };
    let closing: Promise<void> | undefined;
    try {
      const client: PoolClient = await runner.connect();
      markTransaction(runner, true);
      const statements = new StatementQueue(client);
      const commitRead = mode === 'read' ? () => commit(statements, []) : undefined;
      const tx = new TenantTransaction(context, runner, statements, commitRead);
      try {
        const result = await begun(begin(statements, mode, opening), (opened) => work(tx, opened));
        // What was only read can be told before the transaction has ended.
        if (commitRead) {
          closing = (tx.committing ?? commitRead()).catch(() => client.end());
          return { result, tasks: tx.tasksAfterCommit };
        }
        await reach('commit.before');
        await commit(statements, tx.takeClosing());
        await reach('commit.after');
        return { result, tasks: tx.tasksAfterCommit };
      } catch (error) {
        await (tx.committing ?? Promise.reject(error)).catch(() => rollback(client));
        throw error;
      }
    } finally {
      if (closing) void closing.finally(release);
      else await release();
    }
  }
}

/** Both the beginning and the work must have gone well; when the beginning failed, it is the cause. */
async function begun<T>(
  beginning: Promise<readonly QueryResultRow[]>,
  work: (opened: Promise<readonly QueryResultRow[]>) => Promise<T>,
): Promise<T> {
  const [opened, done] = await Promise.allSettled([beginning, work(beginning)]);
  if (opened.status === 'rejected') throw opened.reason;
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}

function contextStatement({ tenantId, userId, roles, requestId }: TransactionContext): BoundStatement {
  return { ...SET_CONTEXT, values: [tenantId, userId, roles, requestId] };
}

/** TypeORM must know that a transaction is open, or its `save()` would begin and commit one of its own. */
function markTransaction(runner: QueryRunner, isTransactionActive: boolean): void {
  Object.assign(runner, { isTransactionActive });
}

async function begin(
  statements: StatementQueue,
  mode: AccessMode,
  opening: BoundStatement,
): Promise<readonly QueryResultRow[]> {
  statements.runAhead(BEGIN[mode]);
  const { rows } = await statements.run(opening);
  return rows;
}

/** PostgreSQL answers COMMIT with ROLLBACK, and no error, where a statement of the transaction had failed. */
async function commit(statements: StatementQueue, closing: readonly BoundStatement[]): Promise<void> {
  for (const statement of closing) statements.runAhead(statement);
  const { command } = await statements.run(COMMIT);
  if (command !== 'COMMIT')
    throw new Error(`COMMIT was answered with ${command}: an error in the transaction was swallowed`);
}

/** A connection that can't roll back is closed; the pool makes another. */
async function rollback(client: PoolClient): Promise<void> {
  try {
    await client.query('ROLLBACK');
  } catch {
    await client.end();
  }
}
