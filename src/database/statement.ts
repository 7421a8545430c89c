/** A statement that PostgreSQL parses and plans once per connection. The same name always has the same text. */
export interface NamedStatement {
  name: string;
  text: string;
  /**
   * PostgreSQL refuses it in a transaction whose idempotency key is not claimed (SQLSTATE WB021). Such a statement may leave
   * together with the claim; every other one waits until the claim is answered.
   */
  isRefusedUnclaimed?: boolean;
}

/** A prepared statement with the values of one run. */
export interface BoundStatement extends NamedStatement {
  values: readonly unknown[];
}

/** A statement without a name is parsed and planned each time. */
export type AnyStatement = Omit<BoundStatement, 'name'> & {
  name?: string;
  /** It begins a transaction. */
  begins?: boolean;
};
