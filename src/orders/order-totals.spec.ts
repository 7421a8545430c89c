import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { MAX_AMOUNT } from '../common/index.js';
import {
  findLineFault,
  lineTax,
  MAX_LINE_AMOUNT,
  MAX_LINES,
  MAX_QUANTITY,
  MAX_TAX_RATE_PPM,
  orderTotals,
  type MoneyLine,
} from './order-totals.js';

const anyLine: fc.Arbitrary<MoneyLine> = fc
  .integer({ min: 1, max: MAX_QUANTITY })
  .chain((quantity) =>
    fc
      .maxSafeInteger()
      .map((seed) => ({ quantity, unitPrice: Math.abs(seed) % (Math.floor(MAX_LINE_AMOUNT / quantity) + 1) })),
  )
  .chain(({ quantity, unitPrice }) =>
    fc.record({
      quantity: fc.constant(quantity),
      unitPrice: fc.constant(unitPrice),
      discount: fc.maxSafeInteger().map((seed) => Math.abs(seed) % (quantity * unitPrice + 1)),
      taxRatePpm: fc.integer({ min: 0, max: MAX_TAX_RATE_PPM }),
    }),
  );

describe('lineTax', () => {
  it.each([
    [1, 2499, 0, 107_500, 269], // 268.6425
    [2, 1299, 0, 190_000, 494], // 493.62
    [1, 1, 0, 500_000, 1], // 0.5 is rounded up
    [1, 1, 0, 499_999, 0],
    [1, 5, 0, 100_000, 1], // 0.5
    [1, 15, 0, 100_000, 2], // 1.5
    [1, 25, 0, 100_000, 3], // 2.5: not to even
    [3, 333, 99, 190_000, 171], // 900 × 0.19
    [1, 100, 100, 190_000, 0],
    [1, MAX_LINE_AMOUNT, 0, MAX_TAX_RATE_PPM, MAX_LINE_AMOUNT],
  ])('of %i × %i − %i at %i ppm is %i', (quantity, unitPrice, discount, rate, tax) => {
    expect(lineTax(quantity, unitPrice, discount, rate)).toBe(tax);
  });

  it('is the integer nearest to the exact tax, the upper one in the middle', () => {
    fc.assert(
      fc.property(anyLine, (line) => {
        const tax = BigInt(lineTax(line.quantity, line.unitPrice, line.discount, line.taxRatePpm));
        const exact = BigInt(line.quantity * line.unitPrice - line.discount) * BigInt(line.taxRatePpm);
        const error = tax * 1_000_000n - exact;
        expect(error > -500_000n && error <= 500_000n).toBe(true);
      }),
    );
  });
});

describe('orderTotals', () => {
  it('of 24.99 with 10.75 % tax and 6.44 shipping is 34.12', () => {
    const line = { quantity: 1, unitPrice: 2499, discount: 0, taxRatePpm: 107_500 };
    expect(orderTotals([line], 644)).toEqual({
      subtotal: 2499,
      discount: 0,
      tax: 269,
      shipping: 644,
      total: 3412,
      lines: [{ tax: 269, total: 2768 }],
    });
  });

  it('of the example order of the API is 3582', () => {
    const line = { quantity: 2, unitPrice: 1299, discount: 0, taxRatePpm: 190_000 };
    expect(orderTotals([line], 490).total).toBe(3582);
  });

  it('are sums of the lines, and integers', () => {
    fc.assert(
      fc.property(
        fc.array(anyLine, { maxLength: MAX_LINES }),
        fc.integer({ min: 0, max: MAX_AMOUNT }),
        (lines, shipping) => {
          const totals = orderTotals(lines, shipping);
          expect(totals.total).toBe(totals.subtotal - totals.discount + totals.tax + totals.shipping);
          expect(totals.total).toBe(totals.lines.reduce((sum, line) => sum + line.total, shipping));
          expect(totals.tax).toBe(totals.lines.reduce((sum, line) => sum + line.tax, 0));
          const exact = lines.reduce((sum, line) => sum + BigInt(line.quantity) * BigInt(line.unitPrice), 0n);
          expect(BigInt(totals.subtotal)).toBe(exact);
          expect(
            Object.values(totals)
              .flat()
              .every((value) => typeof value === 'object' || Number.isSafeInteger(value)),
          ).toBe(true);
        },
      ),
    );
  });

  it('cannot leave 2^53 in JavaScript or int8 in SQL, at the largest order there can be', () => {
    const line = { quantity: 1, unitPrice: MAX_LINE_AMOUNT, discount: 0, taxRatePpm: MAX_TAX_RATE_PPM };
    const { subtotal, total } = orderTotals(
      Array.from({ length: MAX_LINES }, () => line),
      MAX_AMOUNT,
    );
    expect(BigInt(subtotal)).toBe(BigInt(MAX_LINES) * BigInt(MAX_LINE_AMOUNT));
    expect(BigInt(total)).toBe(2n * BigInt(MAX_LINES) * BigInt(MAX_LINE_AMOUNT) + BigInt(MAX_AMOUNT));
    expect(total).toBeLessThan(2 ** 53);
    expect(BigInt(MAX_LINE_AMOUNT) * BigInt(MAX_TAX_RATE_PPM) + 500_000n).toBeLessThan(2n ** 63n);
  });

  it('refuses too many lines and shipping out of bounds', () => {
    const line = { quantity: 1, unitPrice: 1, discount: 0, taxRatePpm: 0 };
    expect(() =>
      orderTotals(
        Array.from({ length: MAX_LINES + 1 }, () => line),
        0,
      ),
    ).toThrow(RangeError);
    for (const shipping of [-1, 0.5, MAX_AMOUNT + 1, NaN])
      expect(() => orderTotals([line], shipping)).toThrow(RangeError);
  });
});

describe('findLineFault', () => {
  const good = { quantity: 2, unitPrice: 100, discount: 50, taxRatePpm: 190_000 };

  it.each([
    [{ quantity: 0 }, 'quantity'],
    [{ quantity: 1.5 }, 'quantity'],
    [{ quantity: MAX_QUANTITY + 1 }, 'quantity'],
    [{ unitPrice: -1 }, 'unitPrice'],
    [{ unitPrice: MAX_AMOUNT + 1 }, 'unitPrice'],
    [{ quantity: MAX_QUANTITY, unitPrice: MAX_AMOUNT }, 'unitPrice'],
    [{ unitPrice: MAX_LINE_AMOUNT / 2 + 1 }, 'unitPrice'],
    [{ discount: 201 }, 'discount'],
    [{ discount: -1 }, 'discount'],
    [{ taxRatePpm: 1_000_001 }, 'taxRatePpm'],
    [{ taxRatePpm: NaN }, 'taxRatePpm'],
  ])('finds %j', (change, field) => {
    expect(findLineFault({ ...good, ...change })?.field).toBe(field);
    expect(findLineFault(good)).toBeUndefined();
  });
});
