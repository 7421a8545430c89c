import type { QueryResultRow } from 'pg';
import type { EntityManager, QueryRunner } from 'typeorm';
import type { AfterCommitTask } from './after-commit.js';
import type { TransactionContext } from './context.js';
import type { AnyStatement, BoundStatement, NamedStatement } from './statement.js';
import type { StatementQueue } from './statement-queue.js';

/** What a transaction runs on. */
export interface Session {
  runner: QueryRunner;
  statements: StatementQueue;
}

/** TypeORM must know that a transaction is open, or its `save()` would begin and commit one of its own. */
export function markTransaction(runner: QueryRunner, isTransactionActive: boolean): void {
  Object.assign(runner, { isTransactionActive });
}

/**
 * An open transaction whose tenant and actor the database knows. The first parameter of everything that touches a
 * tenant's rows, so that nothing can run beside it by mistake.
 */
export abstract class TenantTransaction {
  private readonly tasks: AfterCommitTask[] = [];

  constructor(readonly context: TransactionContext) {}

  protected abstract get session(): Session;

  /**
   * Leaves a statement to be sent together with COMMIT, in one round trip. When it fails, COMMIT becomes ROLLBACK and
   * the whole transaction fails with its error; a statement that must have had an effect raises when it had none.
   */
  abstract runAtCommit(statement: BoundStatement): void;

  /** TypeORM inside this transaction. */
  get manager(): EntityManager {
    const { runner, statements } = this.session;
    statements.flush();
    return runner.manager;
  }

  /** Runs a statement, prepared where it has a name, and returns its rows. */
  async rows<Row extends QueryResultRow>(
    { name, text }: Pick<AnyStatement, 'name' | 'text'>,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const result = await this.session.statements.run({ name, text, values });
    return result.rows as Row[];
  }

  /** Like `rows`, for a statement that none follows: a transaction that only reads sends COMMIT together with it. */
  rowsBeforeCommit<Row extends QueryResultRow>(statement: NamedStatement, values: readonly unknown[]): Promise<Row[]> {
    return this.rows(statement, values);
  }

  /** Runs a statement whose text depends on the request; it is planned for these very values. */
  adHocRows<Row extends QueryResultRow>(text: string, values: readonly unknown[]): Promise<Row[]> {
    return this.rows({ text }, values);
  }

  /**
   * Leaves something to be done once this transaction is committed: never when it is rolled back, and not before others can
   * see what it changed. See AfterCommit for what becomes of errors.
   */
  afterCommit(task: AfterCommitTask): void {
    this.tasks.push(task);
  }

  /** What `afterCommit` collected, for whoever committed. */
  get tasksAfterCommit(): readonly AfterCommitTask[] {
    return this.tasks;
  }
}
