import { inPoolTransaction } from '../../database/transaction.js';
import { rotationMessage } from '../format/event-hash.js';
import { areSameKeys, type LogKeys, publicKeysOf } from '../format/log-keys.js';
import { signMessage } from '../format/signing-key.js';
import type { RotatedBody } from '../verify/key-chain.js';
import { addCheckpoint, appendToLog } from './append-to-log.js';
import { LogStore } from './log-store.js';
import { openLog, type OpenLog } from './open-log.js';
import { publishCheckpoint } from './publish-checkpoint.js';
import type { SealingTools } from './seal-batch.js';
import { keyTexts } from './start-log.js';

/**
 * Makes the log of a tenant go on with other keys. The old event key signs the event that says so; both checkpoint keys
 * sign in it what the log was until then, and the checkpoint after it, so that whoever knows either can follow.
 *
 * @returns whether the keys were changed; false when the new ones are in force already, so a rotation of many logs that was
 *   interrupted may simply run again
 */
export async function rotateKey(tools: SealingTools, tenantId: number, next: LogKeys): Promise<boolean> {
  const hasChanged = await inPoolTransaction(tools.pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const name = await store.lock({ wait: true });
    if (name === null) return false;
    const stored = await store.keys();
    const keys = publicKeysOf(next);
    if (stored.at(-1) && areSameKeys(stored.at(-1)!, keys)) return false;
    if (stored.some((before) => areSameKeys(before, keys)))
      throw new Error(`${name} was sealed with this key before; a key that was given up is never taken again`);
    const log = await openLog(store, name, tools);
    const version = await store.recordLogEvent('log.key-rotated', rotation(tenantId, log, next));
    await appendToLog(store, log, await store.pendingOf(`log/${tenantId}`, version));
    await store.addKeys({ generation: log.generation, validFrom: log.tree.size, ...keys });
    await addCheckpoint(store, log, [log.keys, next]);
    return true;
  });
  const keys = { of: () => next, reload: () => next };
  if (hasChanged) await publishCheckpoint({ ...tools, keys }, tenantId);
  return hasChanged;
}

function rotation(tenantId: number, { origin, tree, keys }: OpenLog, next: LogKeys): RotatedBody['snapshot'] {
  const [size, root] = [tree.size, tree.root()];
  const [oldKeys, newKeys] = [publicKeysOf(keys), publicKeysOf(next)];
  const message = rotationMessage({ origin, size, root, old: oldKeys, next: newKeys });
  const sign = ({ checkpoints }: LogKeys): string => signMessage(checkpoints, message).toString('base64');
  const [old, fresh] = [keyTexts(origin, oldKeys), keyTexts(origin, newKeys)];
  return {
    id: tenantId,
    size,
    root: root.toString('hex'),
    oldCheckpointKey: old.checkpointKey,
    oldEventKey: old.eventKey,
    newCheckpointKey: fresh.checkpointKey,
    newEventKey: fresh.eventKey,
    oldKeySignature: sign(keys),
    newKeySignature: sign(next),
  };
}
