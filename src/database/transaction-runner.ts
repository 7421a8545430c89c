import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { PoolClient, QueryResultRow } from 'pg';
import { DataSource } from 'typeorm';
import { AfterCommit, type AfterCommitTask } from './after-commit.js';
import { contextStatement, type TransactionContext } from './context.js';
import { reach } from './kill-points.js';
import { isWorthRepeating } from './pg-errors.js';
import { ReadTransaction } from './read-transaction.js';
import { type BoundStatement, COMMIT, ROLLBACK } from './statement.js';
import { StatementQueue } from './statement-queue.js';
import { markTransaction, type TenantTransaction, WriteTransaction } from './tenant-transaction.js';

export type AccessMode = 'read' | 'write';

const BEGIN: BoundStatement = {
  name: 'begin_write',
  text: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
  values: [],
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
   */
  run<T>(context: TransactionContext, mode: AccessMode, work: (tx: TenantTransaction) => Promise<T>): Promise<T> {
    // The context says nothing that anybody would wait for.
    return mode === 'read'
      ? this.read(context, work)
      : this.runEarly(context, (tx) => work(tx), contextStatement(context));
  }

  /**
   * The same with a statement of one's own behind BEGIN.
   *
   * @param opening sets the context, as `waybill.set_context` does
   */
  runOpened<T>(context: TransactionContext, work: TransactionWork<T>, opening: BoundStatement): Promise<T> {
    return this.runEarly(context, async (tx, opened) => work(tx, await opened), opening);
  }

  /**
   * Like `runOpened`, but `work` begins before PostgreSQL has answered to the opening statement. It may send a statement
   * that depends on it only where the database itself refuses that statement otherwise.
   */
  async runEarly<T>(context: TransactionContext, work: EarlyWork<T>, opening: BoundStatement): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const { result, tasks } = await this.runOnce(context, work, opening);
        // With the connection given back: a task may want one, and the pool may have a single one.
        this.afterCommit.start(tasks);
        return result;
      } catch (error) {
        if (attempt === ATTEMPTS || !isWorthRepeating(error)) throw error;
        await sleep(Math.random() * 10 * 2 ** attempt);
      }
    }
  }

  /** A transaction that only reads and begins when it is used. Whoever asks for it ends it. */
  beginReading(context: TransactionContext): ReadTransaction {
    return new ReadTransaction(context, () => this.dataSource.createQueryRunner(), this.afterCommit);
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
      statements.runAhead(BEGIN);
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

  private async read<T>(context: TransactionContext, work: (tx: TenantTransaction) => Promise<T>): Promise<T> {
    const tx = this.beginReading(context);
    try {
      return await work(tx);
    } finally {
      tx.end();
    }
  }

  private async runOnce<T>(
    context: TransactionContext,
    work: EarlyWork<T>,
    opening: BoundStatement,
  ): Promise<{ result: T; tasks: readonly AfterCommitTask[] }> {
    const runner = this.dataSource.createQueryRunner();
    try {
      const client: PoolClient = await runner.connect();
      markTransaction(runner, true);
      const statements = new StatementQueue(client);
      const tx = new WriteTransaction(context, { runner, statements });
      try {
        const result = await begun(begin(statements, opening), (opened) => work(tx, opened));
        await reach('commit.before');
        await commit(statements, tx.takeClosing());
        await reach('commit.after');
        return { result, tasks: tx.tasksAfterCommit };
      } catch (error) {
        await rollback(client);
        throw error;
      }
    } finally {
      markTransaction(runner, false);
      await runner.release();
    }
  }
}

/** Both the beginning and the work must have gone well; when the beginning failed, it is the cause. */
async function begun<T>(
  beginning: Promise<readonly QueryResultRow[]>,
  work: (opened: Promise<readonly QueryResultRow[]>) => Promise<T>,
): Promise<T> {
  // Awaited below, but perhaps after it has failed.
  beginning.catch(() => undefined);
  let done: T;
  try {
    done = await work(beginning);
  } catch (error) {
    await beginning;
    throw error;
  }
  await beginning;
  return done;
}

async function begin(statements: StatementQueue, opening: BoundStatement): Promise<readonly QueryResultRow[]> {
  statements.runAhead(BEGIN);
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
