import { type Checkpoint, parseCheckpoint } from '../format/checkpoint.js';
import { eventHash, type LogPublicKeys, signatureMessage } from '../format/event-hash.js';
import { areSameKeys, type LogKeys, publicKeysOf } from '../format/log-keys.js';
import { CompactTree } from '../format/merkle.js';
import { type NoteVerifier, openNote, parseNote, verifierOf, verifySignature } from '../format/signed-note.js';
import type { ResumedBody } from '../verify/key-chain.js';
import type { CheckpointDirectory } from './checkpoint-directory.js';
import type { KnownEdges } from './known-edges.js';
import { type LogEvent, type LogStore, nameOf, type StoredCheckpoint, type StoredKeys } from './log-store.js';
import { PublishedMismatch, SealRefused } from './seal-refused.js';
import { TreeReader } from './tree-reader.js';

/** A log that its holder may append to: its lock is held, and it is what was published. */
export interface OpenLog {
  /** What it is called now. */
  origin: string;
  /** What it was called first. */
  firstOrigin: string;
  generation: number;
  tree: CompactTree;
  /** Those that are in force. */
  keys: LogKeys;
  /** All that were, oldest first. */
  keysBefore: readonly StoredKeys[];
  /** When its last leaf was signed, in microseconds since 1970-01-01T00:00:00Z. */
  sealedUs: number;
}

/** Whoever has the private keys. */
export interface KeyHolder {
  of(tenantId: number): LogKeys;
  /** The same, looked for anew. */
  reload(tenantId: number): LogKeys;
}

export interface OpeningTools {
  keys: KeyHolder;
  /** Where checkpoints are published; null compares with none. */
  directory: CheckpointDirectory | null;
  /** Whether somebody has said that nothing of the log was published there before. */
  isFirstPublication?: boolean;
  edges?: KnownEdges;
}

/**
 * Reads the right edge of a locked log and compares it with the last checkpoint, in the database and as published.
 *
 * @param firstOrigin what `LogStore.lock` returned
 * @throws SealRefused when they don't agree, or when the keys in force aren't at hand
 */
export async function openLog(store: LogStore, firstOrigin: string, tools: OpeningTools): Promise<OpenLog> {
  const { keys, edges } = tools;
  const [size, keysBefore, last, sealedUs] = await Promise.all([
    store.size(),
    store.keys(),
    store.lastCheckpoint(),
    store.lastSealedUs(),
  ]);
  const generation = keysBefore.at(-1)?.generation ?? 1;
  const origin = nameOf({ first: firstOrigin, generation });
  const held = keysInForce(keys, store.tenantId, origin, keysBefore.at(-1));
  const reader = new TreeReader(store);
  const known = edges?.find(store.tenantId, last);
  const tree = known ?? new CompactTree(size, await reader.peaks(size));
  if (size !== (last?.size ?? 0) || (last && !last.root.equals(tree.root()))) {
    throw new SealRefused(
      `${origin}: its ${size} leaves are not what its last checkpoint (${last?.size ?? 0}) says. Run \`waybill audit verify\`.`,
    );
  }
  if (last && !known) checkLast(origin, last, held);
  const log = { origin, firstOrigin, generation, tree, keys: held, keysBefore, sealedUs };
  await comparePublished(store, log, reader, tools);
  return log;
}

/** Nobody but a holder of the keys can have left the log as it is. */
function checkLast(origin: string, { note, size, root }: StoredCheckpoint, { checkpoints }: LogKeys): void {
  const refuse = (why: string): never => {
    throw new SealRefused(`${origin}: its last checkpoint (${size}) ${why}. Run \`waybill audit verify\`.`);
  };
  let signed: Checkpoint;
  try {
    signed = openCheckpoint(note, [verifierOf(origin, checkpoints.publicKey)]);
  } catch (error) {
    return refuse(`is not one that this key signed: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (signed.origin !== origin || signed.size !== size || !signed.root.equals(root)) refuse('is of other leaves');
}

async function comparePublished(
  store: LogStore,
  log: OpenLog,
  reader: TreeReader,
  { directory, isFirstPublication }: OpeningTools,
): Promise<void> {
  const { tenantId } = store;
  const { origin, generation, tree, keys, keysBefore } = log;
  const published = await directory?.last(tenantId);
  if (!directory || (!published && (tree.size === 0 || isFirstPublication))) return;
  if (!published)
    throw new SealRefused(
      `${origin}: it has ${tree.size} leaves, and nothing of it is published in ${directory.path}. If nothing ever was: \`waybill audit publish --first --tenant ${tenantId}\`. If something was, bring it back from a copy; find out who removed it.`,
    );
  const advice = 'After a legitimate restore: `waybill audit resume --from-checkpoint FILE`.';
  if (published.generation < generation && (await isAbandoned(store, log, published.note))) return;
  const checkpoint = parseCheckpoint(parseNote(published.note).text);
  if (checkpoint.origin !== origin || published.generation !== generation)
    throw new PublishedMismatch(
      `${origin}: the published checkpoint is of the log ${checkpoint.origin}. ${advice} Or set AUDIT_CHECKPOINT_DIR to the folder of this log.`,
    );
  openNote(published.note, verifiersOf(origin, [...keysBefore, publicKeysOf(keys)]));
  if (checkpoint.size > tree.size)
    throw new PublishedMismatch(
      `${origin}: its ${tree.size} leaves are fewer than the ${checkpoint.size} published. ${advice}`,
    );
  const root = checkpoint.size === tree.size ? tree.root() : await reader.root(checkpoint.size);
  if (!root.equals(checkpoint.root))
    throw new PublishedMismatch(`${origin}: its first ${checkpoint.size} leaves are not the ones published. ${advice}`);
}

/** Whether the log goes on without what this note covers, and a holder of its keys signed that. */
async function isAbandoned(store: LogStore, { keys }: OpenLog, note: string): Promise<boolean> {
  const last = (await store.logEvents()).findLast(({ type }) => type === 'log.resumed');
  if (!last || !isSignedBy(store.tenantId, last, keys)) return false;
  return isSameCheckpoint((JSON.parse(last.body) as ResumedBody).snapshot.abandoned, note);
}

/** Whether two notes say the same, whoever cosigned them. */
export function isSameCheckpoint(one: string, other: string): boolean {
  return parseNote(one).text === parseNote(other).text;
}

function isSignedBy(tenantId: number, event: LogEvent, { events }: LogKeys): boolean {
  const hash = eventHash({ ...event, tenantId, stream: `log/${tenantId}` });
  return verifySignature(events.publicKey, signatureMessage(hash, event.sealedUs), event.signature);
}

/** @throws SealRefused when the log's keys aren't the ones that this process holds */
function keysInForce(keys: KeyHolder, tenantId: number, origin: string, expected: StoredKeys | undefined): LogKeys {
  const held = keys.of(tenantId);
  if (!expected || areSameKeys(publicKeysOf(held), expected)) return held;
  const again = keys.reload(tenantId);
  if (areSameKeys(publicKeysOf(again), expected)) return again;
  throw new SealRefused(
    `${origin} is sealed with another key than AUDIT_SIGNING_KEY(_FILE). Give the one in force; \`waybill audit rotate-key\` changes it.`,
  );
}

export function verifiersOf(origin: string, keys: readonly LogPublicKeys[]): NoteVerifier[] {
  return keys.map(({ checkpointKey }) => verifierOf(origin, checkpointKey));
}

/** @throws NoteError, CheckpointError */
export function openCheckpoint(note: string, verifiers: readonly NoteVerifier[]): Checkpoint {
  return parseCheckpoint(openNote(note, verifiers).text);
}
