import type { PoolClient, QueryResultRow } from 'pg';
import type { EntityManager } from 'typeorm';
import type { TransactionContext } from './context.js';

/** A statement that PostgreSQL parses and plans once per connection. The same name always has the same text. */
export interface NamedStatement {
  name: string;
  text: string;
}

/**
 * An open transaction whose tenant and actor the database knows. The first parameter of everything that touches a
 * tenant's rows, so that nothing can run beside it by mistake.
 */
export class TenantTransaction {
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

  /** Runs a statement whose text depends on the request; it is planned for these very values. */
  async adHocRows<Row extends QueryResultRow>(text: string, values: readonly unknown[]): Promise<Row[]> {
    const result = await this.client.query<Row>(text, [...values]);
    return result.rows;
  }
}
