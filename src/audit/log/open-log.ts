import { type Checkpoint, parseCheckpoint } from '../format/checkpoint.js';
import { CompactTree } from '../format/merkle.js';
import { type NoteVerifier, openNote, verifierOf } from '../format/signed-note.js';
import type { CheckpointDirectory } from './checkpoint-directory.js';
import type { KnownEdges } from './known-edges.js';
import type { LogStore, StoredKey } from './log-store.js';
import { TreeReader } from './tree-reader.js';

/** A log that its holder may append to: its lock is held, and it is what was published. */
export interface OpenLog {
  origin: string;
  tree: CompactTree;
  keys: readonly StoredKey[];
}

/** The sealer doesn't go on: going on would cover up what has happened. */
export class SealRefused extends Error {
  override readonly name = 'SealRefused';
}

/** The log isn't the one that was published: cut, restored or rewritten. */
export class PublishedMismatch extends SealRefused {}

/**
 * Reads the right edge of a locked log and compares it with the last checkpoint, in the database and as published.
 *
 * @throws SealRefused when they don't agree
 */
export async function openLog(
  store: LogStore,
  origin: string,
  directory: CheckpointDirectory | null,
  edges?: KnownEdges,
): Promise<OpenLog> {
  const [size, keys, last] = await Promise.all([store.size(), store.keys(), store.lastCheckpoint()]);
  const reader = new TreeReader(store);
  const tree = edges?.find(store.tenantId, last) ?? new CompactTree(size, await reader.peaks(size));
  if (size !== (last?.size ?? 0) || (last && !last.root.equals(tree.root()))) {
    throw new SealRefused(
      `${origin}: its ${size} leaves are not what its last checkpoint (${last?.size ?? 0}) says. Run \`waybill audit verify\`.`,
    );
  }
  const note = await directory?.read(store.tenantId);
  if (note && note !== last?.note) await comparePublished(store, { origin, keys, size, reader, note });
  return { origin, tree, keys };
}

interface PublishedLog {
  origin: string;
  keys: readonly StoredKey[];
  size: number;
  reader: TreeReader;
  note: string;
}

async function comparePublished(store: LogStore, { origin, keys, size, reader, note }: PublishedLog): Promise<void> {
  const published = openCheckpoint(note, verifiersOf(origin, keys));
  const advice = 'After a legitimate restore: `waybill audit resume --from-checkpoint FILE`.';
  if (published.origin !== origin)
    throw new SealRefused(`${origin}: the published checkpoint is of the log ${published.origin}`);
  const isSame = published.size <= size && (await reader.root(published.size)).equals(published.root);
  if (isSame || (await isAbandoned(store, note))) return;
  const how =
    published.size > size
      ? `its ${size} leaves are fewer than the ${published.size} published`
      : `its first ${published.size} leaves are not the ones published`;
  throw new PublishedMismatch(`${origin}: ${how}. ${advice}`);
}

/** Whether a logged break says that the log goes on without what this note covers. */
async function isAbandoned(store: LogStore, note: string): Promise<boolean> {
  const breaks = await store.logEvents('log.resumed');
  return breaks.some(({ body }) => (JSON.parse(body) as ResumedBody).snapshot.abandoned === note);
}

export interface ResumedBody {
  snapshot: { id: number; abandoned: string; size: number; root: string };
}

export function verifiersOf(origin: string, keys: readonly StoredKey[]): NoteVerifier[] {
  return keys.map(({ publicKey }) => verifierOf(origin, publicKey));
}

/** @throws NoteError, CheckpointError */
export function openCheckpoint(note: string, verifiers: readonly NoteVerifier[]): Checkpoint {
  return parseCheckpoint(openNote(note, verifiers).text);
}
