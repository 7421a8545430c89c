import type { Pool } from 'pg';
import { inPoolTransaction } from '../../database/transaction.js';
import type { CheckpointDirectory } from './checkpoint-directory.js';
import { LogStore } from './log-store.js';
import { openLog, type OpeningTools } from './open-log.js';
import { TreeReader } from './tree-reader.js';

/** A checkpoint to be cosigned. */
export interface ToCosign {
  /** Signed by the log. */
  note: string;
  size: number;
  /** Consistency proof from a smaller size, or the same, to this one. */
  proofFrom(size: number): Promise<Buffer[]>;
}

/**
 * Asks witnesses for their cosignatures.
 *
 * @returns the note with their lines behind
 * @throws when there are too few: then nothing is published, and the next publication asks again
 */
export type Cosign = (origin: string, checkpoint: ToCosign) => Promise<string>;

export type PublishStep = 'cosigning' | 'publishing' | 'published';

export interface PublishingTools extends OpeningTools {
  pool: Pool;
  cosign?: Cosign | null;
  onStep?: (step: PublishStep) => void | Promise<void>;
}

/** The last checkpoint of a log, which isn't published yet. */
interface Unpublished {
  origin: string;
  generation: number;
  size: number;
  note: string;
  /** Leaves of what is published, under this name. */
  publishedSize: number;
}

/**
 * Publishes the last checkpoint unless it is published already. Under the log's lock, so that nobody publishes at the same
 * time; while witnesses are asked nothing is held.
 */
export async function publishCheckpoint(tools: PublishingTools, tenantId: number): Promise<void> {
  const { directory, cosign, onStep } = tools;
  if (!directory) return;
  const publish = async ({ generation, size, note }: Unpublished, store: LogStore): Promise<void> => {
    await onStep?.('publishing');
    await directory.publish(tenantId, { generation, size, note });
    await onStep?.('published');
    await store.addPublication({ generation, size, note });
  };
  if (!cosign) {
    await withUnpublished(tools, directory, tenantId, publish);
    return;
  }
  const found = await withUnpublished(tools, directory, tenantId, (unpublished) => Promise.resolve(unpublished));
  if (!found) return;
  await onStep?.('cosigning');
  const { generation, size } = found;
  const note = await cosign(found.origin, { note: found.note, size, proofFrom: proofsTo(tools.pool, tenantId, size) });
  await withUnpublished(tools, directory, tenantId, async (now, store) => {
    // Meanwhile somebody may have published a later one, or the log may have another name.
    if (now.generation === generation && now.publishedSize < size) await publish({ ...found, note }, store);
  });
}

/** Nodes of a tree never change, so each proof is read on its own. */
function proofsTo(pool: Pool, tenantId: number, size: number): ToCosign['proofFrom'] {
  return async (from) =>
    from === 0
      ? []
      : inPoolTransaction(pool, (client) =>
          new TreeReader(new LogStore(client, tenantId)).consistencyProof(from, size),
        );
}

/** Holds the log, and works with its last checkpoint unless that is published. */
function withUnpublished<T>(
  tools: PublishingTools,
  directory: CheckpointDirectory,
  tenantId: number,
  work: (unpublished: Unpublished, store: LogStore) => Promise<T>,
): Promise<T | null> {
  return inPoolTransaction(tools.pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const name = await store.lock({ wait: true });
    if (name === null) return null;
    const { origin, generation } = await openLog(store, name, tools);
    const [last, published] = [await store.lastCheckpoint(), await directory.last(tenantId)];
    const publishedSize = published?.generation === generation ? published.size : -1;
    // A crash may have come between the file and the row.
    if (published && publishedSize > 0) await store.addPublication(published);
    if (!last || publishedSize >= last.size) return null;
    return work({ origin, generation, size: last.size, note: last.note, publishedSize }, store);
  });
}
