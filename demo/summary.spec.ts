import { describe, expect, it } from '@jest/globals';
import { describeRun } from './summary.js';

describe('the summary', () => {
  it('lists counts and sums with separators, and amounts by the digits of their currency', () => {
    const text = describeRun(
      'a file',
      3.21,
      { finished: 830, placed: 830, alreadyThere: 0, moved: 2418, alreadyMoved: 0 },
      {
        orders: 830,
        lines: 2155,
        amounts: new Map([
          ['USD', 133_073_545n],
          ['JPY', 1200n],
          ['KWD', 1_005n],
        ]),
        states: new Map([
          ['shipped', 16],
          ['delivered', 793],
          ['confirmed', 21],
        ]),
      },
    );
    expect(text).toBe(`Played a file in 3.2 s
  orders placed          830
  already there            0
  steps moved          2,418
  already moved            0

As the service tells it now (totals in minor units)
  orders                 830
  lines                2,155
  total JPY            1,200  = 1,200 JPY
  total KWD            1,005  = 1.005 KWD
  total USD      133,073,545  = 1,330,735.45 USD

By state
  delivered              793   95.5 %
  confirmed               21    2.5 %
  shipped                 16    1.9 %`);
  });
});
