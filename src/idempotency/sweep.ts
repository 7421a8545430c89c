/** Runs one statement in a transaction of its own. */
export type RunStatement = (text: string, values: readonly unknown[]) => Promise<unknown[]>;

export interface TenantSweep {
  tenantId: number;
  /** Rows removed. */
  swept: number;
  /** Expired rows that are still there, counted up to 100,000. */
  backlog: number;
}

/** Large enough to get on, small enough to hold row locks for a moment only. */
const BATCH = 10_000;

/**
 * Removes every tenant's expired keys, batch by batch. A tenant that another process is sweeping is left to it and is
 * no part of the result.
 *
 * @param stopped asked before each batch
 */
export async function sweepExpiredKeys(
  run: RunStatement,
  stopped: () => boolean = () => false,
  batch: number = BATCH,
): Promise<TenantSweep[]> {
  const tenants = (await run('SELECT waybill.tenant_ids() AS id', [])) as { id: string | number }[];
  const sweeps: TenantSweep[] = [];
  for (const { id } of tenants) {
    const sweep = await sweepTenant(run, Number(id), stopped, batch);
    if (sweep) sweeps.push(sweep);
  }
  return sweeps;
}

async function sweepTenant(
  run: RunStatement,
  tenantId: number,
  stopped: () => boolean,
  batch: number,
): Promise<TenantSweep | null> {
  let swept = 0;
  let backlog: number | null = null;
  while (!stopped()) {
    const [row] = (await run('SELECT swept, backlog FROM waybill.sweep_keys($1, $2)', [tenantId, batch])) as SweepRow[];
    if (!row || row.swept === null) break;
    swept += row.swept;
    backlog = row.backlog ?? 0;
    if (row.swept < batch) break;
  }
  return backlog === null ? null : { tenantId, swept, backlog };
}

/** Nulls when another process is at it. */
interface SweepRow {
  swept: number | null;
  backlog: number | null;
}
