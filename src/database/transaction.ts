import type { ClientBase, Pool, PoolClient, QueryResultRow } from 'pg';
import { closeBroken } from './client.js';
import type { AnyStatement, BoundStatement } from './statement.js';
import { StatementQueue } from './statement-queue.js';

export type TransactionKind = 'write' | 'read';

const BEGIN: Record<TransactionKind, AnyStatement> = {
  write: { name: 'begin_write', text: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE', values: [], begins: true },
  // All statements see the same moment.
  read: { name: 'begin_read', text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', values: [], begins: true },
};
const COMMIT: BoundStatement = { name: 'COMMIT', text: 'COMMIT', values: [] };
const ROLLBACK: BoundStatement = { name: 'ROLLBACK', text: 'ROLLBACK', values: [] };

/** Nothing was committed, as a statement had failed and somebody swallowed its error. */
export class NotCommitted extends Error {
  override readonly name = 'NotCommitted';
}

/**
 * One transaction on one connection. This is the only place that says BEGIN, COMMIT and ROLLBACK. Whoever has the
 * connection closes it or gives it back.
 */
export class ConnectionTransaction {
  constructor(
    readonly statements: StatementQueue,
    private readonly kind: TransactionKind,
  ) {}

  /** BEGIN leaves together with the first statement. */
  begin(): void {
    this.statements.runUnawaited(BEGIN[this.kind]);
  }

  /**
   * COMMIT leaves together with the statements that close the transaction; when one of them fails, so does all.
   *
   * @throws NotCommitted where a statement of the transaction had failed
   */
  async commit(closing: readonly BoundStatement[] = []): Promise<void> {
    for (const statement of closing) this.statements.runUnawaited(statement);
    if (!(await this.hasCommitted()))
      throw new NotCommitted('COMMIT was answered with ROLLBACK: an error in the transaction was swallowed');
  }

  /** Sends COMMIT. PostgreSQL answers it with ROLLBACK, and no error, where a statement of the transaction had failed. */
  async hasCommitted(): Promise<boolean> {
    const { command } = await this.statements.run(COMMIT);
    return command === 'COMMIT';
  }

  /** A statement's rows. The transaction is rolled back in the same packet: neither an effect nor a lock is left. */
  async runAndRollBack(statement: BoundStatement): Promise<readonly QueryResultRow[]> {
    const [{ rows }] = await Promise.all([this.statements.run(statement), this.statements.run(ROLLBACK)]);
    return rows;
  }

  /** A connection that can't roll back is closed; its pool makes another. */
  async rollBack(client: ClientBase): Promise<void> {
    try {
      await this.statements.run(ROLLBACK);
    } catch {
      await closeBroken(client);
    }
  }
}

/**
 * Runs work in a transaction on a connection that somebody else opened and closes.
 *
 * @throws what `work` throws, after ROLLBACK; NotCommitted
 */
export async function inTransaction<T>(
  client: ClientBase,
  work: () => Promise<T>,
  kind: TransactionKind = 'write',
): Promise<T> {
  const statements = new StatementQueue(client);
  const transaction = new ConnectionTransaction(statements, kind);
  transaction.begin();
  // The work sends its own statements over the connection; they come behind BEGIN.
  statements.flush();
  try {
    const result = await work();
    await transaction.commit();
    return result;
  } catch (error) {
    await transaction.rollBack(client);
    throw error;
  }
}

/** The same on a connection of a pool. */
export async function inPoolTransaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  kind: TransactionKind = 'write',
): Promise<T> {
  const client = await pool.connect();
  try {
    return await inTransaction(client, () => work(client), kind);
  } finally {
    client.release();
  }
}
