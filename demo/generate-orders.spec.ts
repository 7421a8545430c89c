import { describe, expect, it } from '@jest/globals';
import { generateOrders } from './generate-orders.js';

describe('invented orders', () => {
  it('depend on seed and number only', () => {
    expect(generateOrders(3, 7)).toEqual(generateOrders(5, 7).slice(0, 3));
    expect(generateOrders(3, 7)).not.toEqual(generateOrders(3, 8));
  });

  it('stay within the bounds of the API', () => {
    for (const { order } of generateOrders(500, 1)) {
      for (const line of order['lines'] as { quantity: number; unitPrice: number; discount: number }[]) {
        expect(line.quantity).toBeGreaterThan(0);
        expect(line.discount).toBeLessThanOrEqual(line.quantity * line.unitPrice);
      }
      expect(Number.isSafeInteger(order['expectedTotal'])).toBe(true);
    }
  });
});
