import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { DataSource } from 'typeorm';

/** The connections of this process. */
export interface PoolState {
  /** Open ones, busy or idle. */
  total: number;
  idle: number;
  /** Requests that wait for one. */
  waiting: number;
}

const PATIENCE_MS = 2_000;

/** Whether the database answers, and how the pool of connections is doing. */
@Injectable()
export class DatabaseProbe {
  private pending: Promise<void> | undefined;

  constructor(private readonly dataSource: DataSource) {}

  /**
   * Runs a statement over the pool that requests use, so that an exhausted pool counts as away, too.
   *
   * @throws whatever the statement failed with, or an Error after two seconds
   */
  async ping(): Promise<void> {
    // However many ask, one at a time queues for a connection.
    this.pending ??= this.dataSource.query('SELECT 1').finally(() => (this.pending = undefined));
    const answer = this.pending.then(() => true);
    const tooLate = new AbortController();
    try {
      const answered = await Promise.race([answer, sleep(PATIENCE_MS, false, { signal: tooLate.signal })]);
      if (!answered) throw new Error('No connection of the pool answered within 2 s');
    } finally {
      tooLate.abort();
      // Lost the race: its failure is no news any more, and must not count as unhandled.
      answer.catch(() => undefined);
    }
  }

  pool(): PoolState {
    const { master } = this.dataSource.driver as unknown as { master: Pool };
    return { total: master.totalCount, idle: master.idleCount, waiting: master.waitingCount };
  }
}
