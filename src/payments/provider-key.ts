import { createHash } from 'node:crypto';

const DOMAIN = 'waybill-provider-key/v1';

/** What is asked of providers. */
export type Operation = 'authorize' | 'capture' | 'void' | 'refund';

/**
 * The key under which a provider knows a request: SHA-256 over length-prefixed fields, in hex. It is made of what the
 * client sent and never of a row's id, so that a retry finds the charge again even when this database lost the row.
 */
export function providerKey(tenantId: number, orderId: string, operation: Operation, clientKey: string): string {
  const hash = createHash('sha256');
  for (const field of [DOMAIN, String(tenantId), orderId, operation, clientKey]) {
    const bytes = Buffer.from(field);
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length);
    hash.update(length).update(bytes);
  }
  return hash.digest('hex');
}
