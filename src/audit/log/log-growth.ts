import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';

/** Other processes seal, too, and a restart would forget: a waiter looks again after this many milliseconds. */
const LOOK_AGAIN = 1000;

/** Wakes those who wait for a tenant's log to grow. A hint only: whoever is woken looks into the log itself. */
@Injectable()
export class LogGrowth implements BeforeApplicationShutdown {
  private readonly waiting = new Map<number, Set<() => void>>();
  private isOver = false;

  announce(tenantId: number): void {
    for (const wake of this.waiting.get(tenantId) ?? []) wake();
  }

  /** Nobody is kept waiting by a service that stops. */
  beforeApplicationShutdown(): void {
    this.isOver = true;
    for (const tenantId of this.waiting.keys()) this.announce(tenantId);
  }

  /** How many wait now. */
  get waiters(): number {
    return [...this.waiting.values()].reduce((sum, { size }) => sum + size, 0);
  }

  get isStopping(): boolean {
    return this.isOver;
  }

  /** Resolves when the log may have grown, after a while in any case, and when the service stops or `signal` aborts. */
  next(tenantId: number, milliseconds: number, signal: AbortSignal): Promise<void> {
    if (this.isOver || signal.aborted) return Promise.resolve();
    const waiters = this.waiting.get(tenantId) ?? new Set();
    this.waiting.set(tenantId, waiters);
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        waiters.delete(wake);
        if (waiters.size === 0) this.waiting.delete(tenantId);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(milliseconds, LOOK_AGAIN));
      signal.addEventListener('abort', wake);
      waiters.add(wake);
    });
  }
}
