import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { sweepExpiredKeys, type TenantSweep } from './sweep.js';

/** What /metrics shows of the sweeper in this process. */
export interface SweeperFigures {
  /** Rows removed since the start. */
  sweptRows: number;
  /** Expired rows that the last round left behind, all tenants together; null before the first round. */
  backlogRows: number | null;
  rounds: number;
  failedRounds: number;
}

const INTERVAL_MS = 60_000;

/** Removes expired keys every minute. Processes on one database share the work: one at a time for each tenant. */
@Injectable()
export class KeySweeper implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(KeySweeper.name);
  private readonly counted: SweeperFigures = { sweptRows: 0, backlogRows: null, rounds: 0, failedRounds: 0 };
  private timer: NodeJS.Timeout | undefined;
  private round: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(private readonly dataSource: DataSource) {}

  get figures(): Readonly<SweeperFigures> {
    return this.counted;
  }

  onApplicationBootstrap(): void {
    // Processes that were started together shouldn't all come at once.
    this.schedule(INTERVAL_MS * Math.random());
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.round;
  }

  /** One round over all tenants, now. */
  async sweep(): Promise<TenantSweep[]> {
    const sweeps = await sweepExpiredKeys(
      (text, values) => this.dataSource.query(text, [...values]),
      () => this.stopped,
    );
    this.counted.rounds += 1;
    this.counted.sweptRows += sweeps.reduce((sum, { swept }) => sum + swept, 0);
    this.counted.backlogRows = sweeps.reduce((sum, { backlog }) => sum + backlog, 0);
    return sweeps;
  }

  private schedule(delay: number): void {
    this.timer = setTimeout(() => {
      this.round = this.runScheduledRound();
    }, delay);
    this.timer.unref();
  }

  private async runScheduledRound(): Promise<void> {
    await this.sweepQuietly();
    if (!this.stopped) this.schedule(INTERVAL_MS);
  }

  /** A round that fails is worth a line in the log, not a service that stops: the next one does its work, too. */
  private async sweepQuietly(): Promise<void> {
    try {
      await this.sweep();
    } catch (error) {
      this.counted.failedRounds += 1;
      this.logger.warn(`Expired idempotency keys were not swept: ${error instanceof Error ? error.message : error}`);
    }
  }
}
