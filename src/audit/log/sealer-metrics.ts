import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import type { Witnesses } from '../witness/witnesses.js';

export interface TenantBacklog {
  tenantId: number;
  /** Events that wait to be sealed. */
  count: number;
  /** When the oldest of them occurred. */
  oldestUs: number;
}

/** What the sealer of this process last saw; all zero where it is off. */
export interface SealerFigures {
  /** Events that wait to be sealed, all tenants together. */
  backlog: number;
  /** Age of the oldest one in seconds. */
  lagSeconds: number;
  /** Events that this process sealed since its start. */
  sealed: number;
  /** Tenants whose log the sealer refuses to go on with. */
  refused: number;
  /** Tenants whose last checkpoint waits for its witnesses. */
  held: number;
}

@Injectable()
export class SealerMetrics {
  private backlog: readonly TenantBacklog[] = [];
  private sealed = 0;
  private readonly refused = new Set<number>();
  private readonly held = new Set<number>();
  /** The witnesses that this process asks; null where it asks none. */
  witnesses: Witnesses | null = null;

  figures(now = Date.now()): SealerFigures {
    const oldest = Math.min(...this.backlog.map(({ oldestUs }) => oldestUs));
    return {
      backlog: this.backlog.reduce((sum, { count }) => sum + count, 0),
      lagSeconds: this.backlog.length === 0 ? 0 : Math.max(0, now / 1000 - oldest / 1_000_000),
      sealed: this.sealed,
      refused: this.refused.size,
      held: this.held.size,
    };
  }

  /** Looks at the queue of every tenant. */
  async observe(pool: Pool): Promise<readonly TenantBacklog[]> {
    const { rows } = await pool.query<TenantBacklog>(
      `SELECT tenant_id AS "tenantId", count(*) AS count, min(occurred_us) AS "oldestUs"
       FROM audit.queue GROUP BY tenant_id ORDER BY tenant_id`,
    );
    this.backlog = rows;
    return rows;
  }

  countSealed(events: number): void {
    this.sealed += events;
  }

  /** @returns whether it was otherwise before */
  setHeld(tenantId: number, isHeld: boolean): boolean {
    const wasHeld = this.held.has(tenantId);
    if (isHeld) this.held.add(tenantId);
    else this.held.delete(tenantId);
    return wasHeld !== isHeld;
  }

  setRefused(tenantId: number, isRefused: boolean): void {
    if (isRefused) this.refused.add(tenantId);
    else this.refused.delete(tenantId);
  }
}
