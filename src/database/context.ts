import type { BoundStatement, NamedStatement } from './statement.js';

/** Who a request acts for, as found by authentication. */
export interface Principal {
  tenantId: number;
  userId: string;
  roles: readonly string[];
}

/** What a transaction tells the database before anything else; see `waybill.set_context`. */
export interface TransactionContext {
  tenantId: number;
  /** Null where nobody is known yet; such a transaction can only read. */
  userId: string | null;
  roles: readonly string[];
  requestId: string;
  /** Of the idempotency key that the transaction acts under: hex of a digest of tenant and key. Events keep it. */
  operationKey?: string;
}

/** What the guard and the interceptors leave on a request for those that come after. */
export interface ContextualRequest {
  id: string;
  method: string;
  principal?: Principal;
  tx?: unknown;
  /** Begins a transaction that only reads; see RequestTransactions. */
  beginReading?: () => unknown;
}

const READING = new Set(['GET', 'HEAD']);

/** Whether a method of HTTP only reads. */
export function isReading(method: string): boolean {
  return READING.has(method);
}

/** @throws Error when the route is reached without authentication, which is a fault of the route */
export function contextOf(request: ContextualRequest): TransactionContext {
  if (!request.principal)
    throw new Error('A transaction needs a principal: this route is public and must not use @Tx()');
  return { ...request.principal, requestId: request.id };
}

const SET_CONTEXT: NamedStatement = {
  name: 'set_context',
  text: 'SELECT waybill.set_context($1, $2, $3, $4, $5)',
};

export function contextStatement(context: TransactionContext): BoundStatement {
  const { tenantId, userId, roles, requestId, operationKey } = context;
  return { ...SET_CONTEXT, values: [tenantId, userId, roles, requestId, operationKey ?? null] };
}
