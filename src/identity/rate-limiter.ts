import { LRUCache } from 'lru-cache';

/** So many requests in so many seconds. */
export interface Quota {
  limit: number;
  windowSeconds: number;
}

/** What a caller is told; all times in whole seconds, rounded up. */
export interface RateState {
  limited: boolean;
  /** Units left now. */
  remaining: number;
  /** Until everything is left again. */
  resetSeconds: number;
  /** Until the refused request would pass; 0 when it passed. */
  retryAfterSeconds: number;
}

/** Callers remembered at once; a full bucket more is all that one who is forgotten wins. */
const MAX_CALLERS = 50_000;

/**
 * Counts requests by caller, in this process. The quota comes back evenly (GCRA, ITU-T I.371): a whole window's worth
 * may come at once, and then one every `window / limit`. One number a caller is kept.
 */
export class RateLimiter {
  /** When the caller's quota will be whole again, in milliseconds. */
  private readonly wholeAt = new LRUCache<string, number>({ max: MAX_CALLERS });
  private readonly windowMs: number;
  private readonly intervalMs: number;

  /** @param now monotonic milliseconds */
  constructor(
    readonly quota: Quota,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.windowMs = quota.windowSeconds * 1000;
    this.intervalMs = this.windowMs / quota.limit;
  }

  /** Takes one unit, unless none is left. */
  take(caller: string): RateState {
    const now = this.now();
    const before = Math.max(now, this.wholeAt.get(caller) ?? now);
    const after = before + this.intervalMs;
    const excess = after - now - this.windowMs;
    // A thousandth of a unit absorbs the rounding of a sum of intervals.
    if (excess > this.intervalMs / 1000) return this.state(before - now, excess);
    this.wholeAt.set(caller, after);
    return this.state(after - now, 0);
  }

  /** Gives one unit back. */
  giveBack(caller: string): void {
    const wholeAt = this.wholeAt.get(caller);
    if (wholeAt !== undefined) this.wholeAt.set(caller, wholeAt - this.intervalMs);
  }

  private state(debtMs: number, excessMs: number): RateState {
    return {
      limited: excessMs > 0,
      remaining: Math.max(0, Math.floor((this.windowMs - debtMs) / this.intervalMs + 0.001)),
      // A sum of intervals is rounded: a billionth more is no second more.
      resetSeconds: Math.ceil(debtMs / 1000 - 1e-6),
      retryAfterSeconds: Math.ceil(excessMs / 1000),
    };
  }
}
