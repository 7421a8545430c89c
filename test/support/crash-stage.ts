import { AsyncLocalStorage } from 'node:async_hooks';
import type { Pool } from 'pg';
import { installKillPoints, type KillPoint } from '../../src/database/index.js';

/** Where a process dies: at a kill point, when a request reaches it for the n-th time. */
export interface CrashPoint {
  name: string;
  point: KillPoint;
  occurrence: number;
}

/**
 * Lets a request die as it would with its process: its transaction is rolled back by the server, which lost the connection,
 * nothing after the point runs, and the client gets no answer. The test's process lives on for the next one.
 */
export class CrashStage {
  private armed: { point: CrashPoint; crashed: () => void } | undefined;
  private seen = 0;
  /** Which arming a request belongs to: the service's own work in the background must not die in its place. */
  private readonly request = new AsyncLocalStorage<object>();
  private readonly hung: ((reason: Error) => void)[] = [];

  constructor(
    /** Of the superuser, in the database of the test. */
    private readonly superuser: Pool,
  ) {
    installKillPoints((point) => this.reached(point));
  }

  /** @returns settles when the crash has happened */
  arm(point: CrashPoint): Promise<void> {
    this.seen = 0;
    return new Promise((crashed) => {
      this.armed = { point, crashed };
    });
  }

  /** Nothing crashes any more, for a request that was answered without reaching the point. */
  disarm(): void {
    this.armed = undefined;
  }

  /** Ends what hangs: by now nobody listens to it any more. Call it when a test case is over. */
  clear(): void {
    this.disarm();
    for (const reject of this.hung.splice(0)) reject(new Error('the process died here'));
  }

  close(): void {
    this.clear();
    installKillPoints(undefined);
  }

  private async reached(point: KillPoint): Promise<void> {
    // The first point of a request; what it does from here on happens in the same asynchronous context.
    if (this.armed && point === 'claim.before') this.request.enterWith(this.armed);
    if (!this.armed || this.request.getStore() !== this.armed || point !== this.armed.point.point) return;
    this.seen += 1;
    if (this.seen < this.armed.point.occurrence) return;
    const { crashed } = this.armed;
    this.armed = undefined;
    // Waits until they are gone, and their locks with them.
    await this.superuser.query(
      `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'waybill' AND state LIKE 'idle in transaction%'`,
    );
    crashed();
    await new Promise<never>((_resolve, reject) => this.hung.push(reject));
  }
}
