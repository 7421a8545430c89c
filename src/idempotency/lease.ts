import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';

/** A worker's right to finish what is done under a key, for a while. */
export interface Lease {
  /** Who holds no longer the newest token of a key commits nothing. */
  readonly token: string;
  readonly seconds: number;
  /** When it is over, on this process's monotonic clock: a worker that was paused past it must not begin to call. */
  readonly deadline: number;
}

export function newLease(seconds: number): Lease {
  return { token: randomUUID(), seconds, deadline: performance.now() + seconds * 1000 };
}

export function isOver(lease: Lease): boolean {
  return performance.now() >= lease.deadline;
}

const FIRST_WAIT_SHARE = 16;

/** Seconds until a call without a result is tried again: a sixteenth of the lease, doubled each time, a lease at most. */
export function waitBeforeRepeat(leaseSeconds: number, attempt: number): number {
  return Math.min(leaseSeconds, (leaseSeconds / FIRST_WAIT_SHARE) * 2 ** Math.min(attempt - 1, FIRST_WAIT_SHARE));
}
