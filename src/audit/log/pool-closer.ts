import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Pool } from 'pg';

/** The connections of the audit's background work, closed when everybody who uses them has stopped. */
@Injectable()
export class PoolCloser implements OnApplicationShutdown {
  constructor(
    readonly pool: Pool,
    /** For work that reads everything. */
    readonly patientPool: Pool,
  ) {}

  async onApplicationShutdown(): Promise<void> {
    await Promise.all([this.pool.end(), this.patientPool.end()]);
  }
}
