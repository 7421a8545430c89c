import type { QueryResultRow } from 'pg';
import type { EntityManager, QueryRunner } from 'typeorm';
import type { AfterCommitTask } from './after-commit.js';
import type { TransactionContext } from './context.js';
import type { BoundStatement, NamedStatement } from './statement.js';
import type { StatementQueue } from './statement-queue.js';

/**
 * An open transaction whose tenant and actor the database knows. The first parameter of everything that touches a
 * tenant's rows, so that nothing can run beside it by mistake.
 */
export class TenantTransaction {
  private closing: BoundStatement[] = [];
  private readonly tasks: AfterCommitTask[] = [];
  private lastCommit: Promise<void> | undefined;

  constructor(
    readonly context: TransactionContext,
    private readonly runner: QueryRunner,
    private readonly statements: StatementQueue,
    /** Sends COMMIT where nothing was written that could need more; undefined elsewhere. */
    private readonly commitRead: (() => Promise<void>) | undefined,
  ) {}

  /** TypeORM inside this transaction. */
  get manager(): EntityManager {
    this.statements.flush();
    return this.runner.manager;
  }

  /** Runs a prepared statement and returns its rows. */
  async rows<Row extends QueryResultRow>(statement: NamedStatement, values: readonly unknown[]): Promise<Row[]> {
    const result = await this.statements.run({ name: statement.name, text: statement.text, values });
    return result.rows as Row[];
  }

  /** Like `rows`, for a statement that none follows: where the transaction only reads, COMMIT leaves together with it. */
  lastRows<Row extends QueryResultRow>(statement: NamedStatement, values: readonly unknown[]): Promise<Row[]> {
    const rows = this.rows<Row>(statement, values);
    this.lastCommit = this.commitRead?.();
    return rows;
  }

  /** The COMMIT that `lastRows` sent, if it did, for whoever would commit or roll back. */
  get committing(): Promise<void> | undefined {
    return this.lastCommit;
  }

  /**
   * Leaves a statement to be sent together with COMMIT, in one round trip. When it fails, COMMIT becomes ROLLBACK and
   * the whole transaction fails with its error; a statement that must have had an effect raises when it had none.
   */
  runAtCommit(statement: BoundStatement): void {
    this.closing.push(statement);
  }

  /** What `runAtCommit` collected, for whoever commits. */
  takeClosing(): BoundStatement[] {
    const closing = this.closing;
    this.closing = [];
    return closing;
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

  /** Runs a statement whose text depends on the request; it is planned for these very values. */
  async adHocRows<Row extends QueryResultRow>(text: string, values: readonly unknown[]): Promise<Row[]> {
    const result = await this.statements.run({ text, values });
    return result.rows as Row[];
  }
}
