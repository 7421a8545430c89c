import { randomUUID } from 'node:crypto';
import type { HttpRequest } from './http.js';

/** An order of three lines, as a client sends it; the amounts stand once more in `PLACE_ORDER`. */
export function orderBody(externalRef: string): string {
  return JSON.stringify({
    channel: 'web',
    externalRef,
    currency: 'EUR',
    customer: { ref: `c-${externalRef.slice(-4)}`, name: 'Ada Example', email: 'ada@example.test' },
    shippingAddress: { line1: '1 Main St', city: 'Berlin', postalCode: '10115', country: 'DE' },
    lines: [
      { sku: 'TEA-1', name: 'Green tea', quantity: 2, unitPrice: 1299, discount: 0, taxRatePpm: 190_000 },
      { sku: 'CUP-7', name: 'Cup with a handle', quantity: 4, unitPrice: 850, discount: 400, taxRatePpm: 190_000 },
      { sku: 'BOOK-3', name: 'All about tea', quantity: 1, unitPrice: 2400, discount: 0, taxRatePpm: 70_000 },
    ],
    shipping: 490,
    expectedTotal: 9720,
    metadata: { campaign: 'spring' },
  });
}

export function authorization(key: string | undefined): Record<string, string> {
  return { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
}

/** More creates or steps than anything here can do in a second: so many are prepared, so that none is sent twice. */
export const MOST_PER_SECOND = 6_000;

/** As many creates as asked for, each with a key and a reference of its own. */
export function createRequests(count: number, headers: Record<string, string>, path = '/v1/orders'): HttpRequest[] {
  return Array.from({ length: count }, () => {
    const key = randomUUID();
    return { method: 'POST', path, headers: { ...headers, 'idempotency-key': key }, body: orderBody(key) };
  });
}

const LINES = `ARRAY['TEA-1','CUP-7','BOOK-3'], ARRAY['Green tea','Cup with a handle','All about tea'],
  ARRAY[2,4,1]::bigint[], ARRAY[1299,850,2400]::bigint[], ARRAY[0,400,0]::bigint[], ARRAY[190000,190000,70000]::bigint[],
  ARRAY[494,570,168]::bigint[], ARRAY[3092,3570,2568]::bigint[]`;
const CONTACTS = `ARRAY['customer','shippingAddress'],
  ARRAY['{"name":"Ada Example","email":"ada@example.test"}','{"line1":"1 Main St","city":"Berlin","postalCode":"10115","country":"DE"}'],
  ARRAY[sha256('customer'), sha256('shippingAddress')]`;

/** The same order as a call in SQL; `ref` is an expression for its external reference. */
export function placeOrderCall(ref: string): string {
  return `waybill.place_order(1, uuidv7(), upper(substr(md5(${ref}), 1, 10)), 'web', ${ref}, 'c-' || right(${ref}, 4), 'EUR',
  8398, 400, 1232, 490, 9720, '{"campaign": "spring"}', ${LINES}, ${CONTACTS})`;
}
