import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { type PeriodicTask, PeriodicTasks } from '../background/index.js';
import { sweepExpiredKeys, type TenantSweep } from './sweep.js';

/** What /metrics shows of the sweeper in this process. */
export interface SweeperFigures {
  /** Rows removed since the start. */
  sweptRows: number;
  /** Expired rows that the last round left behind, all tenants together; null before the first round. */
  backlogRows: number | null;
  failedRounds: number;
}

const INTERVAL_MS = 60_000;

/** Removes expired keys every minute. Processes on one database share the work: one at a time for each tenant. */
@Injectable()
export class KeySweeper {
  private readonly task: PeriodicTask<TenantSweep[]>;
  private sweptRows = 0;
  private backlogRows: number | null = null;

  constructor(
    tasks: PeriodicTasks,
    private readonly dataSource: DataSource,
  ) {
    this.task = tasks.add(KeySweeper.name, {
      name: 'key-sweep',
      failure: 'Expired idempotency keys were not swept',
      interval: INTERVAL_MS,
      first: 'within-interval',
      run: () => this.round(),
    });
  }

  get figures(): SweeperFigures {
    const { sweptRows, backlogRows } = this;
    return { sweptRows, backlogRows, failedRounds: this.task.figures.failedRounds };
  }

  /** One round over all tenants, now. */
  sweep(): Promise<TenantSweep[]> {
    return this.task.runNow();
  }

  private async round(): Promise<TenantSweep[]> {
    const sweeps = await sweepExpiredKeys(
      (text, values) => this.dataSource.query(text, [...values]),
      () => this.task.isStopping,
    );
    this.sweptRows += sweeps.reduce((sum, { swept }) => sum + swept, 0);
    this.backlogRows = sweeps.reduce((sum, { backlog }) => sum + backlog, 0);
    return sweeps;
  }
}
