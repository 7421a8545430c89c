import type { Pool } from 'pg';
import { originOf, signCheckpoint } from '../format/checkpoint.js';
import { eventHash, eventPreimage, genesisHash, leafHash, signatureMessage } from '../format/event-hash.js';
import type { Subtree } from '../format/merkle.js';
import { type SigningKey, signMessage } from '../format/signing-key.js';
import type { CheckpointDirectory } from './checkpoint-directory.js';
import type { KnownEdges } from './known-edges.js';
import { LogStore, type NewLeaf, type PendingEvent } from './log-store.js';
import { openLog, type OpenLog, SealRefused } from './open-log.js';
import { inPoolTransaction } from '../../database/transaction.js';
import type { SigningKeys } from './signing-keys.js';
import { isStored } from './tree-reader.js';

/** What sealing needs besides the tenant. */
export interface SealingTools {
  pool: Pool;
  keys: SigningKeys;
  /** First part of every log's name. */
  origin: string;
  directory: CheckpointDirectory | null;
  edges?: KnownEdges;
  /** Told of each step; tests kill the process there. */
  onStep?: (step: SealStep) => void | Promise<void>;
}

export type SealStep = 'locked' | 'signed' | 'appended' | 'checkpointed' | 'committed' | 'publishing' | 'published';

/** Most events of one transaction. */
export const BATCH_SIZE = 500;

/**
 * Seals the tenant's oldest queued events in one transaction.
 *
 * @returns how many; null when another process holds the log
 * @throws SealRefused when events or log are not as they were left
 */
export async function sealBatch(tools: SealingTools, tenantId: number, batchSize = BATCH_SIZE): Promise<number | null> {
  const { pool, keys, origin, directory, edges, onStep } = tools;
  const sealed = await inPoolTransaction(pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const name = await lockOrCreate(store, originOf(origin, tenantId), keys.current.publicKey);
    if (name === null) return null;
    if (name !== originOf(origin, tenantId))
      throw new SealRefused(`The log of tenant ${tenantId} is called ${name}; AUDIT_ORIGIN would change that`);
    await onStep?.('locked');
    const log = await openLog(store, name, directory, edges);
    const pending = await store.pending(batchSize);
    if (pending.length === 0) return 0;
    const key = keyInForce(keys, log);
    await appendToLog(store, log, pending, key, onStep);
    await addCheckpoint(store, log, [key]);
    edges?.remember(tenantId, log.tree);
    await onStep?.('checkpointed');
    return pending.length;
  });
  if (sealed) await onStep?.('committed');
  return sealed;
}

/** Publishes the last checkpoint unless it is published already. Under the log's lock, so that none replaces a later one. */
export async function publishCheckpoint(
  { pool, directory, edges, onStep }: SealingTools,
  tenantId: number,
): Promise<void> {
  if (!directory) return;
  await inPoolTransaction(pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const name = await store.lock({ wait: true });
    if (name === null) return;
    await openLog(store, name, directory, edges);
    const last = await store.lastCheckpoint();
    if (!last || last.note === (await directory.read(tenantId))) return;
    await onStep?.('publishing');
    await directory.publish(tenantId, last.note);
    await onStep?.('published');
  });
}

/** @returns the log's origin; null when another process holds it */
async function lockOrCreate(store: LogStore, origin: string, publicKey: Buffer): Promise<string | null> {
  const name = await store.lock({ wait: false });
  if (name !== null || !(await store.create(origin, publicKey))) return name;
  return store.lock({ wait: false });
}

/** Signs events and puts them into a log whose lock is held. */
export async function appendToLog(
  store: LogStore,
  { tree }: OpenLog,
  pending: readonly PendingEvent[],
  key: SigningKey,
  onStep?: SealingTools['onStep'],
): Promise<void> {
  const leaves: NewLeaf[] = [];
  const nodes: (Subtree & { hash: Buffer })[] = [];
  const inBatch = new Map<string, number>();
  for (const event of pending) {
    checkEvent(store.tenantId, event, inBatch.get(event.stream));
    inBatch.set(event.stream, event.version);
    const signature = signMessage(key, signatureMessage(event.eventHash));
    const leaf = leafHash(eventPreimage(hashed(store.tenantId, event)), signature);
    leaves.push({ index: tree.size, stream: event.stream, version: event.version, signature, leafHash: leaf });
    tree.append(leaf, (node, hash) => {
      if (isStored(node)) nodes.push({ ...node, hash });
    });
  }
  await onStep?.('signed');
  await store.append(leaves, nodes);
  await onStep?.('appended');
}

export async function addCheckpoint(
  store: LogStore,
  { origin, tree }: OpenLog,
  signers: readonly SigningKey[],
): Promise<string> {
  const checkpoint = { origin, size: tree.size, root: tree.root() };
  const note = signCheckpoint(
    checkpoint,
    signers.map(({ privateKey, publicKey }) => ({ name: origin, privateKey, rawPublicKey: publicKey })),
  );
  await store.addCheckpoint({ ...checkpoint, note });
  return note;
}

/** @throws SealRefused when the log's key isn't the one that this process holds */
export function keyInForce(keys: SigningKeys, { origin, keys: known }: OpenLog): SigningKey {
  const expected = known.at(-1)?.publicKey;
  const held = expected && (keys.current.publicKey.equals(expected) ? keys.current : keys.reload());
  if (held && held.publicKey.equals(expected)) return held;
  throw new SealRefused(
    `${origin} is sealed with another key than AUDIT_SIGNING_KEY(_FILE). Give the one in force; \`waybill audit rotate-key\` changes it.`,
  );
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
