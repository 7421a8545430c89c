import type { ClientBase, QueryResultRow } from 'pg';
import type { QueryRunner } from 'typeorm';
import type { AfterCommit } from './after-commit.js';
import { closeBroken } from './client.js';
import { contextStatement, type TransactionContext } from './context.js';
import type { BoundStatement, NamedStatement } from './statement.js';
import { StatementQueue } from './statement-queue.js';
import { markTransaction, type Session, TenantTransaction } from './tenant-transaction.js';
import { ConnectionTransaction } from './transaction.js';

interface OpenSession extends Session {
  transaction: ConnectionTransaction;
  connected: Promise<ClientBase>;
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

  override rowsBeforeCommit<Row extends QueryResultRow>(
    statement: NamedStatement,
    values: readonly unknown[],
  ): Promise<Row[]> {
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
    const transaction = new ConnectionTransaction(statements, 'read');
    transaction.begin();
    statements.runUnawaited(contextStatement(this.context));
    const connected = runner.connect() as Promise<ClientBase>;
    connected.then(
      (client) => statements.attach(client),
      (error: unknown) => statements.fail(error),
    );
    return { runner, statements, transaction, connected };
  }

  /**
   * Whoever waits for rows hears of a statement that failed, and of a connection that broke. A broken one is closed, and the pool
   * makes another.
   */
  private async commit({ runner, transaction, connected }: OpenSession): Promise<void> {
    try {
      if (await transaction.hasCommitted()) this.after.start(this.tasksAfterCommit);
    } catch {
      await connected.then(closeBroken).catch(() => undefined);
    } finally {
      markTransaction(runner, false);
      await runner.release();
    }
  }
}
