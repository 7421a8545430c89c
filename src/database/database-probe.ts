import type { OnApplicationShutdown } from '@nestjs/common';
import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';
import { closeBroken, requirePrimary, SteadyClient } from './client.js';

/** The connections of this process. */
export interface PoolState {
  /** Open ones, busy or idle. */
  total: number;
  idle: number;
  /** Requests that wait for one. */
  waiting: number;
}

const PATIENCE_MS = 2_000;

/**
 * Whether the database answers and takes writes, and how the pool of connections is doing. It asks over a connection of its own:
 * a pool that is busy says nothing of the database.
 */
export class DatabaseProbe implements OnApplicationShutdown {
  private client: SteadyClient | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly url: string,
  ) {}

  /**
   * @throws whatever kept the database from being asked, which takes two seconds each at most to connect and to answer; or
   *   StandbyError
   */
  ping(): Promise<void> {
    // However many ask, it is asked once at a time.
    return (this.running ??= this.ask().finally(() => (this.running = undefined)));
  }

  pool(): PoolState {
    const { master } = this.dataSource.driver as unknown as { master: Pool };
    return { total: master.totalCount, idle: master.idleCount, waiting: master.waitingCount };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.running?.catch(() => undefined);
    await this.client?.end();
  }

  /** A connection that broke since the last time says nothing of now: a second one is tried. */
  private async ask(): Promise<void> {
    const known = this.client;
    try {
      await this.askOnce();
    } catch (error) {
      if (!known || this.client) throw error;
      await this.askOnce();
    }
  }

  private async askOnce(): Promise<void> {
    const client = this.client ?? (await this.connect());
    try {
      await requirePrimary(client);
      this.client = client;
    } catch (error) {
      this.client = undefined;
      await closeBroken(client);
      throw error;
    }
  }

  private async connect(): Promise<SteadyClient> {
    const client = new SteadyClient({
      connectionString: this.url,
      application_name: 'waybill probe',
      connectionTimeoutMillis: PATIENCE_MS,
      statement_timeout: PATIENCE_MS,
      query_timeout: PATIENCE_MS,
      keepAlive: true,
    });
    await client.connect();
    return client;
  }
}
