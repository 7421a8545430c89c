import { setImmediate } from 'node:timers/promises';
import type { ClientBase, Pool } from 'pg';
import { CheckpointError } from '../format/checkpoint.js';
import { eventPreimage } from '../format/event-hash.js';
import { areSameKeys } from '../format/log-keys.js';
import { CompactTree } from '../format/merkle.js';
import { NoteError } from '../format/signed-note.js';
import type { CheckpointDirectory, PublishedNote } from '../log/checkpoint-directory.js';
import { PublishedLost } from '../log/seal-refused.js';
import { LogStore, nameOf } from '../log/log-store.js';
import { inPoolTransaction } from '../../database/transaction.js';
import { BrokenTreeError, isStored, STORED_LEVELS, TreeReader } from '../log/tree-reader.js';
import { type Fault, FaultFound, type VerificationResult } from './fault.js';
import { readUnverified } from './expected-checkpoints.js';
import { KeyChain, type Reign } from './key-chain.js';
import { type ChainedEvent, LogVerifier } from './log-verifier.js';
import type { TrustedKey } from './trusted-key.js';
import { requireCosigned, type WitnessTrust } from './witness-check.js';
import { checkState } from './state-check.js';
import { type LeafRow, StoredEvents, type UnsealedRow } from './stored-events.js';

export interface DatabaseTrust {
  /** Keys that the verifier knows from elsewhere. */
  trusted: readonly TrustedKey[];
  /** Where checkpoints are published; the last one is compared. */
  directory: CheckpointDirectory | null;
  /** Notes that somebody kept. */
  checkpoints?: readonly string[];
  checkSignatures?: boolean;
  /** Witnesses of the checkpoint that was published last. */
  cosigned?: WitnessTrust;
  /** Leaves out whether the entities are what their last events say. */
  skipState?: boolean;
  /** Checkpoint of an earlier verification: what it covers is not read again. */
  since?: { size: number; root: Buffer };
  /** Milliseconds from an event to its sealing from which on it is reported as late. */
  lateAfter?: number;
  /** Unsealed events older than this many milliseconds are overdue. */
  overdueAfter: number;
  /** How a log is called that was never sealed. */
  defaultOrigin: string;
}

type Progress = (done: number, total: number) => void;

/**
 * Verifies everything that the database holds of one tenant's history, in one snapshot: log, tree, checkpoints, events that
 * are not sealed yet, and whether the entities are what their last events say.
 *
 * @param pool connections of the role `waybill_sealer`
 */
export function verifyDatabase(
  pool: Pool,
  tenantId: number,
  trust: DatabaseTrust,
  onProgress: Progress = () => undefined,
): Promise<VerificationResult> {
  return inPoolTransaction(pool, (client) => verifyWithin(client, tenantId, trust, onProgress), 'read');
}

/** The same as one transaction of `waybill_sealer` sees it, which somebody else began and ends. */
export function verifyWithin(
  client: ClientBase,
  tenantId: number,
  trust: DatabaseTrust,
  onProgress: Progress = () => undefined,
): Promise<VerificationResult> {
  return new DatabaseVerification(client, tenantId, trust, onProgress).run();
}

/** Whether something is wrong with what was read, rather than with the reading. */
function isFinding(error: unknown): error is FaultFound | NoteError | CheckpointError {
  return error instanceof FaultFound || error instanceof NoteError || error instanceof CheckpointError;
}

/** Events that are checked at one go: a few milliseconds. */
const YIELD = 50;

class DatabaseVerification {
  private readonly store: LogStore;
  private readonly events: StoredEvents;
  private computedNodes: { level: number; index: number; hash: Buffer }[] = [];

  constructor(
    private readonly client: ClientBase,
    private readonly tenantId: number,
    private readonly trust: DatabaseTrust,
    private readonly onProgress: Progress,
  ) {
    this.store = new LogStore(client, tenantId);
    this.events = new StoredEvents(client, tenantId);
  }

  async run(): Promise<VerificationResult> {
    const origin = (await this.store.origin()) ?? this.trust.defaultOrigin;
    const verifier = await this.begin(origin);
    let unsealed = 0;
    try {
      const published = this.trust.cosigned ? await this.store.lastPublication() : null;
      if (published && published.size >= verifier.size) verifier.expect(published.note, false);
      await this.expectCheckpoints(verifier);
      await this.readLeaves(verifier);
      verifier.finishLog({ uncovered: 'MISSING_CHECKPOINT', mayBeEmpty: true });
      await this.compareKeys(verifier.reigns);
      if (this.trust.cosigned) requireCosigned(published?.note ?? null, this.trust.cosigned);
      unsealed = await this.readUnsealed(verifier);
      const fault = this.trust.skipState ? null : await checkState(this.client, this.tenantId, verifier.kinds);
      return verifier.result(fault, unsealed);
    } catch (error) {
      if (error instanceof FaultFound) return verifier.result(error.fault, unsealed);
      if (error instanceof BrokenTreeError) return verifier.result({ code: 'GAP', detail: error.message }, unsealed);
      if (!isFinding(error)) throw error;
      const detail = `a checkpoint can't be read: ${error.message}`;
      return verifier.result({ code: 'BAD_SIGNATURE', detail }, unsealed);
    }
  }

  private async begin(origin: string): Promise<LogVerifier> {
    const { trusted, checkSignatures, lateAfter } = this.trust;
    const tree = await this.verifiedTree();
    return new LogVerifier({
      tenantId: this.tenantId,
      origin,
      keys: await this.chainAt(tree.size),
      lateAfter,
      trusted,
      checkSignatures,
      tree,
      onNode: (node, hash) => {
        if (isStored(node)) this.computedNodes.push({ ...node, hash });
      },
    });
  }

  /** Names and keys where the verification begins. */
  private async chainAt(size: number): Promise<KeyChain> {
    if (size === 0) return new KeyChain();
    const first = await this.store.firstOrigin();
    const keys = (await this.store.keys()).findLast(({ validFrom }) => validFrom <= size);
    if (first === null || !keys) return new KeyChain();
    return new KeyChain({ ...keys, origin: nameOf({ first, generation: keys.generation }) });
  }

  /**
   * What was verified earlier, if it is there still as it was; else nothing, so that all is read to find what is wrong. Nothing
   * as well where somebody kept a checkpoint from before, which the leaves must meet.
   */
  private async verifiedTree(): Promise<CompactTree> {
    const { since } = this.trust;
    if (!since || since.size > (await this.store.size())) return new CompactTree();
    try {
      const kept = await this.keptCheckpoints();
      if (kept.some((note) => readUnverified(note).size < since.size)) return new CompactTree();
      const tree = new CompactTree(since.size, await new TreeReader(this.store).peaks(since.size));
      return tree.root().equals(since.root) ? tree : new CompactTree();
    } catch (error) {
      if (error instanceof BrokenTreeError || isFinding(error)) return new CompactTree();
      throw error;
    }
  }

  /** Those that were given, and the published one; one of no leaves says nothing. */
  private async keptCheckpoints(): Promise<string[]> {
    const { directory, checkpoints = [] } = this.trust;
    const published = directory && (await this.published(directory));
    return published && published.size > 0 ? [...checkpoints, published.note] : [...checkpoints];
  }

  /** The last published checkpoint, which must be there when the log says that it was published. */
  private async published(directory: CheckpointDirectory): Promise<PublishedNote | null> {
    let found: PublishedNote | null;
    try {
      found = await directory.last(this.tenantId);
    } catch (error) {
      if (!(error instanceof PublishedLost)) throw error;
      throw new FaultFound({ code: 'MISSING_CHECKPOINT', detail: error.message });
    }
    const told = await this.store.lastPublication();
    if (told && told.size > 0 && !found) {
      const detail = `the checkpoint of ${told.size} leaves was published, and nothing is in ${directory.path}: bring it back from a copy`;
      throw new FaultFound({ code: 'MISSING_CHECKPOINT', detail });
    }
    return found;
  }

  /** The last one in the database, and the kept ones. */
  private async expectCheckpoints(verifier: LogVerifier): Promise<void> {
    const last = await this.store.lastCheckpoint();
    const kept = await this.keptCheckpoints();
    for (const note of kept) verifier.expect(note, false);
    if (last && last.size >= verifier.size) verifier.expect(last.note, true);
  }

  private async readLeaves(verifier: LogVerifier): Promise<void> {
    const total = await this.store.size();
    for await (const leaves of this.events.leaves(verifier.size)) {
      const checkpoints = await this.events.checkpointsBetween(leaves[0]!.index + 1, leaves.at(-1)!.index + 1);
      for (const [at, leaf] of leaves.entries()) {
        await this.checkLeaf(verifier, leaf, checkpoints);
        // A service that verifies beside its requests must get to them.
        if (at % YIELD === 0) await setImmediate();
      }
      await this.compareNodes();
      this.onProgress(verifier.size, total);
    }
  }

  private async checkLeaf(verifier: LogVerifier, row: LeafRow, checkpoints: Map<number, string>): Promise<void> {
    const at = { index: row.index, stream: row.stream, version: row.version };
    if (row.eventId === null) throw new FaultFound(await this.missing(row));
    const checkpoint = checkpoints.get(row.index + 1);
    if (checkpoint) verifier.expect(checkpoint, true);
    const leaf = verifier.add({
      ...this.chained({ ...row, eventId: row.eventId }),
      index: row.index,
      type: row.type,
      occurredUs: row.occurredUs,
      sealedUs: row.sealedUs,
      signature: row.signature,
      body: () => row.body,
    });
    if (!leaf.equals(row.leafHash))
      throw new FaultFound({ code: 'HASH_MISMATCH', detail: 'the leaf is not that of its event', ...at });
  }

  private chained(row: UnsealedRow | (LeafRow & { eventId: string })): ChainedEvent {
    const { stream, version, prevHash, eventHash, beforeHash } = row;
    return {
      stream,
      version,
      prevHash,
      eventHash,
      preimage: eventPreimage({ ...row, tenantId: this.tenantId }),
      before: this.trust.since && beforeHash ? { version: version - 1, hash: beforeHash } : undefined,
    };
  }

  private async missing({ index, stream, version }: LeafRow): Promise<Fault> {
    return (await this.events.hasStream(stream))
      ? { code: 'GAP', detail: 'the event of this leaf is gone', index, stream, version }
      : { code: 'MISSING_STREAM', detail: 'all events of the stream are gone', index, stream, version };
  }

  /** The stored nodes make the proofs; they must be the ones that the leaves give. */
  private async compareNodes(): Promise<void> {
    const nodes = this.computedNodes;
    this.computedNodes = [];
    for (const { level, index, hash } of nodes) {
      const [stored] = await this.store.nodeHashes(level, index, index + 1);
      if (!stored?.equals(hash))
        throw new FaultFound({
          code: 'ROOT_MISMATCH',
          detail: `node ${index} of level ${level / STORED_LEVELS} of the stored tree is not the root of its leaves`,
        });
    }
  }

  /** The table of keys says to whoever goes on with the log what the log says itself. */
  private async compareKeys(reigns: readonly Reign[]): Promise<void> {
    const stored = await this.store.keys();
    const later = stored.slice(stored.length - reigns.length);
    const isSame = reigns.every(
      (reign, at) => later[at]?.validFrom === reign.validFrom && areSameKeys(later[at], reign),
    );
    if (!isSame || (reigns[0]?.validFrom === 0 && stored.length !== reigns.length))
      throw new FaultFound({
        code: 'STATE_DRIFT',
        detail: 'the stored keys of the log are not those that it names itself',
      });
  }

  /** Events without a leaf: they must be queued, and not for long; hashes and chains hold for them as well. */
  private async readUnsealed(verifier: LogVerifier): Promise<number> {
    const overdueBefore = (Date.now() - this.trust.overdueAfter) * 1000;
    let count = 0;
    for await (const rows of this.events.unsealed()) {
      for (const row of rows) this.checkUnsealed(verifier, row, overdueBefore);
      count += rows.length;
    }
    return count;
  }

  /** @param overdueBefore microseconds since 1970 */
  private checkUnsealed(verifier: LogVerifier, row: UnsealedRow, overdueBefore: number): void {
    verifier.addUnsealed(this.chained(row));
    const at = { stream: row.stream, version: row.version };
    if (!row.isQueued)
      throw new FaultFound({ code: 'UNSEALED_OVERDUE', detail: 'the event is neither sealed nor queued', ...at });
    if (row.occurredUs < overdueBefore)
      throw new FaultFound({ code: 'UNSEALED_OVERDUE', detail: 'the event waits too long to be sealed', ...at });
  }
}
