import { hash } from 'node:crypto';
import type { TransactionContext } from '../database/index.js';

const PREFIX = Buffer.from('waybill-key/v1\n');

/**
 * A context that acts under an idempotency key. Its `operationKey` names one action of a client for everybody down the chain:
 * guards, hooks, calls to other systems, and events, which keep it when the key itself was swept. It tells nothing of the key.
 */
export function actingUnder(context: TransactionContext, key: string): TransactionContext {
  return { ...context, operationKey: operationKey(context.tenantId, key) };
}

/** hex(SHA-256("waybill-key/v1\n" || int8be(tenantId) || key)) */
export function operationKey(tenantId: number, key: string): string {
  const tenant = Buffer.alloc(8);
  tenant.writeBigInt64BE(BigInt(tenantId));
  return hash('sha256', Buffer.concat([PREFIX, tenant, Buffer.from(key)]), 'hex');
}
