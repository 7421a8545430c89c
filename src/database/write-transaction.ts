import type { QueryResultRow } from 'pg';
import type { EntityManager } from 'typeorm';
import type { TransactionContext } from './context.js';
import type { BoundStatement, NamedStatement } from './statement.js';
import { type Session, TenantTransaction } from './tenant-transaction.js';

/** One that may write. Who began it ends it. */
export class WriteTransaction extends TenantTransaction {
  private closing: BoundStatement[] = [];
  private isToBeRolledBack = false;
  private isClaimAnswered: boolean;

  /** @param claim settles with the answer to the claim that opens the transaction; null where something else does */
  constructor(
    context: TransactionContext,
    protected readonly session: Session,
    private readonly claim: Promise<unknown> | null,
  ) {
    super(context);
    this.isClaimAnswered = claim === null;
    const answered = (): void => void (this.isClaimAnswered = true);
    claim?.then(answered, answered);
  }

  override get manager(): EntityManager {
    if (!this.isClaimAnswered)
      throw new Error('TypeORM would send its statements before the claim of the idempotency key is answered');
    return super.manager;
  }

  /** Waits for the claim, unless PostgreSQL itself refuses the statement without one. */
  override async rows<Row extends QueryResultRow>(
    statement: Pick<Partial<NamedStatement>, 'name' | 'isRefusedUnclaimed'> & { text: string },
    values: readonly unknown[],
  ): Promise<Row[]> {
    if (!this.isClaimAnswered && !statement.isRefusedUnclaimed) await this.claim;
    return super.rows(statement, values);
  }

  override runAtCommit(statement: BoundStatement): void {
    this.closing.push(statement);
  }

  /** Has everything undone that was done in this transaction, though the work ends well. */
  rollBackAtEnd(): void {
    this.isToBeRolledBack = true;
  }

  get endsWithRollback(): boolean {
    return this.isToBeRolledBack;
  }

  /** What `runAtCommit` collected, for whoever commits. */
  takeClosing(): BoundStatement[] {
    const { closing } = this;
    this.closing = [];
    return closing;
  }
}
