import { type Checkpoint, signCheckpoint } from '../format/checkpoint.js';
import { eventHash, eventPreimage, genesisHash, leafHash, signatureMessage } from '../format/event-hash.js';
import type { LogKeys } from '../format/log-keys.js';
import type { Subtree } from '../format/merkle.js';
import { signMessage } from '../format/signing-key.js';
import type { LogStore, NewLeaf, PendingEvent } from './log-store.js';
import type { OpenLog } from './open-log.js';
import { SealRefused } from './seal-refused.js';
import { isStored } from './tree-reader.js';

export type AppendStep = 'signed' | 'appended';

/** Signs events and puts them into a log whose lock is held. */
export async function appendToLog(
  store: LogStore,
  log: OpenLog,
  pending: readonly PendingEvent[],
  onStep?: (step: AppendStep) => void | Promise<void>,
): Promise<void> {
  const leaves: NewLeaf[] = [];
  const nodes: (Subtree & { hash: Buffer })[] = [];
  const inBatch = new Map<string, number>();
  // A clock that was set back doesn't make the log run backwards.
  const sealedUs = Math.max(Date.now() * 1000, log.sealedUs);
  for (const event of pending) {
    checkEvent(store.tenantId, event, inBatch.get(event.stream));
    inBatch.set(event.stream, event.version);
    const signature = signMessage(log.keys.events, signatureMessage(event.eventHash, sealedUs));
    const leaf = leafHash(eventPreimage(hashed(store.tenantId, event)), sealedUs, signature);
    const { stream, version } = event;
    leaves.push({ index: log.tree.size, stream, version, sealedUs, signature, leafHash: leaf });
    log.tree.append(leaf, (node, hash) => {
      if (isStored(node)) nodes.push({ ...node, hash });
    });
  }
  log.sealedUs = sealedUs;
  await onStep?.('signed');
  await store.append(leaves, nodes);
  await onStep?.('appended');
}

/** Signs what the log is now. @param signers whose checkpoint keys sign; those in force without it */
export async function addCheckpoint(
  store: LogStore,
  { origin, tree, keys }: OpenLog,
  signers: readonly LogKeys[] = [keys],
): Promise<void> {
  const checkpoint = { origin, size: tree.size, root: tree.root() };
  await store.addCheckpoint({ ...checkpoint, note: noteOf(checkpoint, signers) });
}

export function noteOf(checkpoint: Checkpoint, signers: readonly LogKeys[]): string {
  const noteSigners = signers.map(({ checkpoints: { privateKey, publicKey } }) => ({
    name: checkpoint.origin,
    privateKey,
    rawPublicKey: publicKey,
  }));
  return signCheckpoint(checkpoint, noteSigners);
}

/** What was queued must still be what was written: its hash, its place in the chain, its version before it in the log. */
function checkEvent(tenantId: number, event: PendingEvent, beforeInBatch: number | undefined): void {
  const place = `tenant ${tenantId}, ${event.stream}, version ${event.version}`;
  const refuse = (what: string): never => {
    throw new SealRefused(`${place}: ${what}. Run \`waybill audit verify\`.`);
  };
  if (event.eventId === null) refuse('the queued event is gone');
  if (!eventHash(hashed(tenantId, event)).equals(event.eventHash)) refuse('the hash is not that of the event');
  const isFirst = event.version === 1;
  const before = isFirst ? genesisHash(tenantId, event.stream) : event.beforeHash;
  if (!before?.equals(event.prevHash)) refuse('the event before is another one');
  if (!isFirst && !event.isBeforeSealed && beforeInBatch !== event.version - 1)
    refuse('the event before was never sealed');
}

function hashed(tenantId: number, event: PendingEvent) {
  return { ...event, tenantId, eventId: event.eventId ?? '' };
}
