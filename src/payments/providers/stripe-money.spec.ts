import { describe, expect, it } from '@jest/globals';
import { fromStripeAmount, toStripeAmount } from './stripe-money.js';

describe('amounts as Stripe counts them', () => {
  it.each([
    ['EUR', 3582, 3582],
    ['JPY', 500, 500],
    ['KWD', 1230, 1230],
    ['ISK', 500, 50_000],
    ['UGX', 500, 50_000],
    ['MGA', 500, 5],
    ['MGA', 501, null],
  ])('%s %s is %s', (currency, amount, expected) => {
    expect(toStripeAmount(amount, currency)).toBe(expected);
    if (expected !== null) expect(fromStripeAmount(expected, currency.toLowerCase())).toBe(amount);
  });
});
