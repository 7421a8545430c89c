import { randomUUID } from 'node:crypto';

/** What tests read of an order; the whole of it is `OrderDto`. */
export interface Order {
  id: string;
  number: string;
  status: string;
  version: number;
  total: number;
  externalRef: string | null;
  customer: Record<string, string>;
  shippingAddress: Record<string, string> | null;
  lines: { lineNo: number; sku: string; quantity: number; unitPrice: number; tax: number; total: number }[];
  metadata: Record<string, unknown>;
  placedAt: string;
  updatedAt: string;
  eventHash: string;
  [member: string]: unknown;
}

export interface ProblemAnswer {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  requestId: string;
  errors?: { pointer?: string; parameter?: string; detail: string }[];
  [member: string]: unknown;
}

/** A body for POST /v1/orders that is right; the total is 3582. */
export function orderBody(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    channel: 'web',
    externalRef: `test-${randomUUID()}`,
    currency: 'EUR',
    customer: { ref: 'c-42', name: 'Ada Example', email: 'ada@example.test' },
    shippingAddress: { line1: '1 Main St', city: 'Berlin', postalCode: '10115', country: 'DE' },
    lines: [{ sku: 'TEA-1', name: 'Green tea', quantity: 2, unitPrice: 1299, discount: 0, taxRatePpm: 190_000 }],
    shipping: 490,
    expectedTotal: 3582,
    metadata: { campaign: 'spring' },
    ...changes,
  };
}

/** Where a problem's faults are: pointers and names of parameters, each once. */
export function faultsOf({ errors = [] }: ProblemAnswer): string[] {
  return [...new Set(errors.map(({ pointer, parameter }) => pointer ?? parameter ?? '?'))];
}
