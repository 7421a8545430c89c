import { describe, expect, it } from '@jest/globals';
import { isOver, newLease, waitBeforeRepeat } from './lease.js';

describe('a lease', () => {
  it('is over when its time has gone by', () => {
    expect(isOver(newLease(60))).toBe(false);
    expect(isOver(newLease(0))).toBe(true);
  });

  it('has a token of its own', () => {
    expect(newLease(1).token).not.toBe(newLease(1).token);
  });
});

describe('the wait before a call is repeated', () => {
  it('doubles, up to a lease', () => {
    const waits = [1, 2, 3, 4, 5, 6, 1000].map((attempt) => waitBeforeRepeat(32, attempt));
    expect(waits).toEqual([2, 4, 8, 16, 32, 32, 32]);
  });
});
