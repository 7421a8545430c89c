import { verifierOf } from '../format/signed-note.js';
import { LogStore } from './log-store.js';
import { openCheckpoint, openLog, type ResumedBody, verifiersOf } from './open-log.js';
import { addCheckpoint, appendToLog, keyInForce, publishCheckpoint, type SealingTools } from './seal-batch.js';
import { inPoolTransaction } from '../../database/transaction.js';
import { TreeReader } from './tree-reader.js';

/**
 * Lets a log go on after its database was restored to an older state: logs a signed break that names the checkpoint left
 * behind. Whoever verifies the log is told of it, and whoever kept that checkpoint sees that it is not met.
 *
 * @param note the published checkpoint that the log no longer meets
 * @returns leaves of the log at the break
 */
export async function resumeLog(tools: SealingTools, tenantId: number, note: string): Promise<number> {
  const size = await inPoolTransaction(tools.pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const origin = await store.lock({ wait: true });
    if (origin === null) throw new Error(`tenant ${tenantId} has no log`);
    const log = await openLog(store, origin, null);
    const key = keyInForce(tools.keys, log);
    const abandoned = openCheckpoint(note, [...verifiersOf(origin, log.keys), verifierOf(origin, key.publicKey)]);
    if (abandoned.origin !== origin)
      throw new Error(`the checkpoint is of the log ${abandoned.origin}, not of ${origin}`);
    const isMet =
      abandoned.size <= log.tree.size && (await new TreeReader(store).root(abandoned.size)).equals(abandoned.root);
    if (isMet) throw new Error(`${origin} meets this checkpoint: there is nothing to resume from`);
    const published = await tools.directory?.read(tenantId);
    if (published && published !== note)
      throw new Error(`another checkpoint is published in ${tools.directory?.fileOf(tenantId)}: resume from that one`);

    const at = log.tree.size;
    const snapshot: ResumedBody['snapshot'] = {
      id: tenantId,
      abandoned: note,
      size: at,
      root: log.tree.root().toString('hex'),
    };
    const version = await store.recordLogEvent('log.resumed', snapshot);
    await appendToLog(store, log, await store.pendingOf(`log/${tenantId}`, version), key);
    await addCheckpoint(store, log, [key]);
    return at;
  });
  await publishCheckpoint(tools, tenantId);
  return size;
}
