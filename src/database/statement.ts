/** A statement that PostgreSQL parses and plans once per connection. The same name always has the same text. */
export interface NamedStatement {
  name: string;
  text: string;
}

/** A prepared statement with the values of one run. */
export interface BoundStatement extends NamedStatement {
  values: readonly unknown[];
}

/** A statement without a name is parsed and planned each time. */
export type AnyStatement = Omit<BoundStatement, 'name'> & { name?: string };

export const COMMIT: BoundStatement = { name: 'COMMIT', text: 'COMMIT', values: [] };
export const ROLLBACK: BoundStatement = { name: 'ROLLBACK', text: 'ROLLBACK', values: [] };
