import type { LogPublicKeys } from '../format/event-hash.js';
import { publicKeysOf } from '../format/log-keys.js';
import { CompactTree } from '../format/merkle.js';
import { verifierKeyText } from '../format/signed-note.js';
import type { StartedBody } from '../verify/key-chain.js';
import { appendToLog, noteOf } from './append-to-log.js';
import type { CheckpointDirectory } from './checkpoint-directory.js';
import type { LogStore } from './log-store.js';
import type { OpenLog } from './open-log.js';

/** Puts the first leaf into a log that was just made: it names the log and its keys. */
export async function startLog(store: LogStore, log: OpenLog): Promise<void> {
  const keys = publicKeysOf(log.keys);
  const { firstOrigin: origin } = log;
  const snapshot: StartedBody['snapshot'] = { id: store.tenantId, origin, ...keyTexts(origin, keys) };
  const version = await store.recordLogEvent('log.started', snapshot);
  await store.addKeys({ generation: 1, validFrom: 0, ...keys });
  await appendToLog(store, log, await store.pendingOf(`log/${store.tenantId}`, version));
}

/**
 * Publishes that the log is there and empty, before anything of it is committed: a log with leaves of which nothing is
 * published was never begun by its sealer.
 */
export async function publishEmpty(
  log: OpenLog,
  tenantId: number,
  directory: CheckpointDirectory | null,
): Promise<void> {
  if (!directory || (await directory.last(tenantId))) return;
  const { firstOrigin, keys } = log;
  const note = noteOf({ origin: firstOrigin, size: 0, root: new CompactTree().root() }, [keys]);
  await directory.publish(tenantId, { generation: 1, size: 0, note });
}

export function keyTexts(
  origin: string,
  { checkpointKey, eventKey }: LogPublicKeys,
): { checkpointKey: string; eventKey: string } {
  return { checkpointKey: verifierKeyText(origin, checkpointKey), eventKey: verifierKeyText(origin, eventKey) };
}
