import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Pool } from 'pg';

/** Closes the sealer's connections when everybody who uses them has stopped. */
@Injectable()
export class PoolCloser implements OnApplicationShutdown {
  constructor(readonly pool: Pool) {}

  onApplicationShutdown(): Promise<void> {
    return this.pool.end();
  }
}
