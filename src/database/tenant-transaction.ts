import type { PoolClient, QueryResultRow } from 'pg';
import type { EntityManager } from 'typeorm';
import type { AfterCommitTask } from './after-commit.js';
import type { TransactionContext } from './context.js';

/** A statement that PostgreSQL parses and plans once per connection. The same name always has the same text. */
export interface NamedStatement {
  name: string;
  text: string;
}

/** A prepared statement with the values of one run. */
export interface BoundStatement extends NamedStatement {
  values: readonly unknown[];
}

/**
 * An open transaction whose tenant and actor the database knows. The first parameter of everything that touches a
 * tenant's rows, so that nothing can run beside it by mistake.
 */
export class TenantTransaction {
  private closing: BoundStatement[] = [];
  private readonly tasks: AfterCommitTask[] = [];

  constructor(
    readonly context: TransactionContext,
    /** TypeORM inside this transaction. */
    readonly manager: EntityManager,
    private readonly client: PoolClient,
  ) {}

  /** Runs a prepared statement and returns its rows. */
  async rows<Row extends QueryResultRow>(statement: NamedStatement, values: readonly unknown[]): Promise<Row[]> {
    const result = await this.client.query<Row>({ ...statement, values: [...values] });
    return result.rows;
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
    const result = await this.client.query<Row>(text, [...values]);
    return result.rows;
  }
}
