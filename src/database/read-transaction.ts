import type { PoolClient, QueryResultRow } from 'pg';
import type { QueryRunner } from 'typeorm';
import type { AfterCommit } from './after-commit.js';
import { contextStatement, type TransactionContext } from './context.js';
import { type BoundStatement, COMMIT, type NamedStatement } from './statement.js';
import { StatementQueue } from './statement-queue.js';
import { markTransaction, type Session, TenantTransaction } from './tenant-transaction.js';

/** All statements of one answer see the same moment. */
const BEGIN: BoundStatement = {
  name: 'begin_read',
  text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
  values: [],
};

interface OpenSession extends Session {
  connected: Promise<PoolClient>;
}

/**
 * A transaction that only reads. It begins with its first statement, so a request that is refused before that costs no
 * connection, and nobody waits for its COMMIT.
 */
export class ReadTransaction extends TenantTransaction {
  private opened: OpenSession | undefined;
  private hasEnded = false;

  constructor(
    context: TransactionContext,
    private readonly createRunner: () => QueryRunner,
    private readonly after: AfterCommit,
  ) {
    super(context);
  }

  protected override get session(): Session {
    if (this.hasEnded) throw new Error('This transaction has ended: nothing can be read in it any more');
    return (this.opened ??= this.open());
  }

  override runAtCommit({ name }: BoundStatement): void {
    throw new Error(`${name} can't run at COMMIT: this transaction only reads`);
  }

  override lastRows<Row extends QueryResultRow>(statement: NamedStatement, values: readonly unknown[]): Promise<Row[]> {
    const rows = this.rows<Row>(statement, values);
    this.end();
    return rows;
  }

  /** Commits, if there is anything to commit, and gives the connection back. Once is enough, more does no harm. */
  end(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    if (this.opened) void this.commit(this.opened);
  }

  private open(): OpenSession {
    const runner = this.createRunner();
    markTransaction(runner, true);
    const statements = new StatementQueue();
    statements.runAhead(BEGIN);
    statements.runAhead(contextStatement(this.context));
    const connected = runner.connect() as Promise<PoolClient>;
    connected.then(
      (client) => statements.attach(client),
      (error: unknown) => statements.fail(error),
    );
    return { runner, statements, connected };
  }

  /** Whoever waits for rows hears of a connection that breaks; a broken one is closed, and the pool makes another. */
  private async commit({ runner, statements, connected }: OpenSession): Promise<void> {
    try {
      const { command } = await statements.run(COMMIT);
      // PostgreSQL answers with ROLLBACK where a statement had failed.
      if (command === 'COMMIT') this.after.start(this.tasksAfterCommit);
    } catch {
      await connected.then((client) => client.end()).catch(() => undefined);
    } finally {
      markTransaction(runner, false);
      await runner.release();
    }
  }
}
