/** A body for POST /v1/orders; what is left out has a value that is right. */
export interface OrderDraft {
  channel?: string;
  externalRef?: string;
  currency?: string;
  customer?: Record<string, unknown>;
  shippingAddress?: Record<string, unknown>;
  lines?: LineDraft[];
  shipping?: number;
  expectedTotal?: number;
  metadata?: Record<string, unknown>;
}

export interface LineDraft {
  sku: string;
  name: string;
  quantity: number;
  unitPrice: number;
  discount?: number;
  taxRatePpm?: number;
}

/** One line of 2 × 12.99 EUR at 19 %, and shipping: 35.82 EUR in all. */
export function orderDraft(changes: OrderDraft = {}): OrderDraft {
  return {
    channel: 'e2e',
    currency: 'EUR',
    customer: { ref: 'c-e2e', name: 'Ada Example', email: 'ada@example.test' },
    shippingAddress: { line1: '1 Main St', city: 'Berlin', postalCode: '10115', country: 'DE' },
    lines: [lineDraft()],
    shipping: 490,
    metadata: { madeBy: 'e2e' },
    ...changes,
  };
}

export function lineDraft(changes: Partial<LineDraft> = {}): LineDraft {
  return {
    sku: 'TEA-1',
    name: 'Green tea',
    quantity: 2,
    unitPrice: 1299,
    discount: 0,
    taxRatePpm: 190_000,
    ...changes,
  };
}
