import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { DataSource, type QueryRunner } from 'typeorm';
import type { TransactionContext } from './context.js';
import { isWorthRepeating } from './pg-errors.js';
import { type NamedStatement, TenantTransaction } from './tenant-transaction.js';

export type AccessMode = 'read' | 'write';

const BEGIN: Record<AccessMode, string> = {
  // All statements of one answer see the same moment.
  read: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  write: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
};

const SET_CONTEXT: NamedStatement = {
  name: 'set_context',
  text: 'SELECT waybill.set_context($1, $2, $3, $4)',
};

const ATTEMPTS = 4;

/** Opens tenant transactions: context first, then the work, then a COMMIT that is known to have been one. */
@Injectable()
export class TransactionRunner {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Runs `work` in one transaction. After a deadlock, a serialization failure or a collision of random numbers it runs
   * again from the start, so `work` must have no effect outside the transaction.
   */
  async run<T>(context: TransactionContext, mode: AccessMode, work: (tx: TenantTransaction) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.runOnce(context, mode, work);
      } catch (error) {
        if (attempt === ATTEMPTS || !isWorthRepeating(error)) throw error;
        await sleep(Math.random() * 10 * 2 ** attempt);
      }
    }
  }

  private async runOnce<T>(
    context: TransactionContext,
    mode: AccessMode,
    work: (tx: TenantTransaction) => Promise<T>,
  ): Promise<T> {
    const runner = this.dataSource.createQueryRunner();
    try {
      const client: PoolClient = await runner.connect();
      try {
        await begin(client, context, mode);
        markTransaction(runner, true);
        const result = await work(new TenantTransaction(context, runner.manager, client));
        await commit(client);
        return result;
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

/** TypeORM must know that a transaction is open, or its `save()` would begin and commit one of its own. */
function markTransaction(runner: QueryRunner, isTransactionActive: boolean): void {
  Object.assign(runner, { isTransactionActive });
}

/** BEGIN and the context leave together; the connection is in pipeline mode. */
async function begin(client: PoolClient, context: TransactionContext, mode: AccessMode): Promise<void> {
  const began = client.query(BEGIN[mode]);
  const { tenantId, userId, roles, requestId } = context;
  const set = client.query({ ...SET_CONTEXT, values: [tenantId, userId, roles, requestId] });
  await Promise.all([began, set]);
}

/** PostgreSQL answers COMMIT with ROLLBACK, and no error, where a statement of the transaction had failed. */
async function commit(client: PoolClient): Promise<void> {
  const { command } = await client.query('COMMIT');
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
