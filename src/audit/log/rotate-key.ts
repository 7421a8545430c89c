import { rotationMessage } from '../format/event-hash.js';
import { verifierKeyText } from '../format/signed-note.js';
import { type SigningKey, signMessage } from '../format/signing-key.js';
import type { RotatedBody } from '../verify/key-chain.js';
import { LogStore } from './log-store.js';
import { openLog, type OpenLog } from './open-log.js';
import { addCheckpoint, appendToLog, keyInForce, publishCheckpoint, type SealingTools } from './seal-batch.js';
import { inPoolTransaction } from '../../database/transaction.js';

/**
 * Makes the log of a tenant go on with another key. The old key signs the event that says so, and the new one signs what
 * it takes over; both sign the checkpoint, so that whoever knows either can follow.
 *
 * @returns whether the key was changed; false when the new one is in force already, so a rotation of many logs that was
 *   interrupted may simply run again
 */
export async function rotateKey(tools: SealingTools, tenantId: number, next: SigningKey): Promise<boolean> {
  const hasChanged = await inPoolTransaction(tools.pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const origin = await store.lock({ wait: true });
    if (origin === null) return false;
    const log = await openLog(store, origin, tools.directory);
    if (log.keys.at(-1)?.publicKey.equals(next.publicKey)) return false;
    if (log.keys.some(({ publicKey }) => publicKey.equals(next.publicKey)))
      throw new Error(`${origin} was sealed with this key before; a key that was given up is never taken again`);
    const old = keyInForce(tools.keys, log);
    const version = await store.recordLogEvent('log.key-rotated', rotation(tenantId, log, old, next));
    await appendToLog(store, log, await store.pendingOf(`log/${tenantId}`, version), old);
    await store.addKey(log.tree.size, next.publicKey);
    await addCheckpoint(store, log, [old, next]);
    return true;
  });
  if (hasChanged) await publishCheckpoint(tools, tenantId);
  return hasChanged;
}

function rotation(
  tenantId: number,
  { origin, tree }: OpenLog,
  old: SigningKey,
  next: SigningKey,
): RotatedBody['snapshot'] {
  const [size, root] = [tree.size, tree.root()];
  const message = rotationMessage({ origin, size, root, oldKey: old.publicKey, newKey: next.publicKey });
  return {
    id: tenantId,
    size,
    root: root.toString('hex'),
    oldKey: verifierKeyText(origin, old.publicKey),
    newKey: verifierKeyText(origin, next.publicKey),
    newKeySignature: signMessage(next, message).toString('base64'),
  };
}
