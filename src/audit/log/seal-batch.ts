import type { Pool } from 'pg';
import { inPoolTransaction } from '../../database/transaction.js';
import { originOf } from '../format/checkpoint.js';
import { addCheckpoint, appendToLog, type AppendStep } from './append-to-log.js';
import { LogStore, type PendingEvent } from './log-store.js';
import { openLog, type OpeningTools } from './open-log.js';
import type { Cosign, PublishStep } from './publish-checkpoint.js';
import { SealRefused } from './seal-refused.js';
import { publishEmpty, startLog } from './start-log.js';

/** What sealing needs besides the tenant. */
export interface SealingTools extends OpeningTools {
  pool: Pool;
  /** First part of every log's name. */
  origin: string;
  /** Asks witnesses for what is published; null where there are none. */
  cosign?: Cosign | null;
  /** Told of each step; tests kill the process there. */
  onStep?: (step: SealStep) => void | Promise<void>;
}

export type SealStep = 'locked' | 'started' | AppendStep | 'checkpointed' | 'committed' | PublishStep;

/** Most events of one transaction. */
export const BATCH_SIZE = 500;

/**
 * Seals the tenant's oldest queued events in one transaction, and begins its log when there is none.
 *
 * @returns how many; null when another process holds the log
 * @throws SealRefused when events or log are not as they were left
 */
export async function sealBatch(tools: SealingTools, tenantId: number, batchSize = BATCH_SIZE): Promise<number | null> {
  const { pool, edges, onStep } = tools;
  const sealed = await inPoolTransaction(pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const name = originOf(tools.origin, tenantId);
    const held = await lockOrCreate(store, name);
    if (held === null) return null;
    if (held.name !== name)
      throw new SealRefused(
        `The log of tenant ${tenantId} is called ${held.name}, and AUDIT_ORIGIN would change that. Set it back.`,
      );
    await onStep?.('locked');
    const log = await openLog(store, name, tools);
    const pending = await store.pending(batchSize);
    refuseLogEvents(tenantId, pending);
    if (held.isNew) {
      await startLog(store, log);
      await publishEmpty(log, tenantId, tools.directory);
      await onStep?.('started');
    } else if (pending.length === 0) return 0;
    await appendToLog(store, log, pending, onStep);
    await addCheckpoint(store, log);
    edges?.remember(tenantId, log.tree);
    await onStep?.('checkpointed');
    return pending.length;
  });
  if (sealed) await onStep?.('committed');
  return sealed;
}

/** @returns the log's first name; null when another process holds it */
async function lockOrCreate(store: LogStore, origin: string): Promise<{ name: string; isNew: boolean } | null> {
  const name = await store.lock({ wait: false });
  if (name !== null) return { name, isNew: false };
  if (!(await store.create(origin))) return null;
  return { name: origin, isNew: true };
}

/** Only who holds the keys writes about the log itself, and seals it in the same transaction. */
function refuseLogEvents(tenantId: number, pending: readonly PendingEvent[]): void {
  const foreign = pending.find(({ stream }) => stream === `log/${tenantId}`);
  if (foreign)
    throw new SealRefused(
      `tenant ${tenantId}, ${foreign.stream}, version ${foreign.version}: somebody queued an event about the log itself. Run \`waybill audit verify\`.`,
    );
}
