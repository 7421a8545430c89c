import { verify } from 'node:crypto';
import type { Checkpoint } from '../format/checkpoint.js';
import { genesisHash, leafHash, sha256, signatureMessage } from '../format/event-hash.js';
import { CompactTree, type Subtree } from '../format/merkle.js';
import { type CheckpointTrust, ExpectedCheckpoints, readUnverified } from './expected-checkpoints.js';
import {
  type Fault,
  FaultFound,
  type LateSealing,
  type LogBreak,
  type VerificationResult,
  verdictOf,
} from './fault.js';
import type { Reign, ResumedBody } from './key-chain.js';
import { type StreamEnd, StreamTable } from './stream-table.js';
import { isTrusted } from './trusted-key.js';

/** An event in its stream. */
export interface ChainedEvent {
  stream: string;
  version: number;
  prevHash: Buffer;
  /** As stored beside the event. */
  eventHash: Buffer;
  /** The bytes that the hash is over. */
  preimage: Buffer;
  /** Where the verification begins in the middle: the end of the event's stream before it. */
  before?: StreamEnd;
}

/** A sealed event as an export or the database shows it. */
export interface Leaf extends ChainedEvent {
  index: number;
  type: string;
  /** Microseconds since 1970-01-01T00:00:00Z, as is the next. */
  occurredUs: number;
  /** When it was signed. */
  sealedUs: number;
  signature: Buffer;
  body: () => string;
}

/** A day in milliseconds. */
const LATE_AFTER = 86_400_000;

export interface LogVerifierOptions extends Omit<CheckpointTrust, 'checkSignatures'> {
  tenantId: number;
  checkSignatures?: boolean;
  /** Milliseconds from an event to its sealing from which on it is reported as late; a day without it. */
  lateAfter?: number;
  /** The tree of the leaves that were verified earlier. */
  tree?: CompactTree;
  onNode?: (node: Subtree, hash: Buffer) => void;
}

export interface LogEnd {
  /** What it is called when leaves come after the log's own last checkpoint. */
  uncovered: 'UNPROVEN_TAIL' | 'MISSING_CHECKPOINT';
  /** How many leaves somebody said that there are. */
  statedSize?: number;
  /** Whether a log of no leaves, for which nobody vouches, is in order. */
  mayBeEmpty: boolean;
}

/**
 * Checks the events of one log in the log's order, and remembers of each stream only its end. Throws `FaultFound` at the
 * first fault.
 */
export class LogVerifier {
  readonly streams = new StreamTable();
  /** Kinds of entities that the events are about. */
  readonly kinds = new Set<string>();
  private readonly tree: CompactTree;
  private readonly fromIndex: number;
  private readonly breaks: LogBreak[] = [];
  private readonly checkpoints: ExpectedCheckpoints;
  private late: LateSealing | null = null;
  private sealedUs = 0;
  /** Leaves that the log's own last checkpoint covers. */
  private provenSize = 0;

  constructor(private readonly options: LogVerifierOptions) {
    const { tree = new CompactTree(), checkSignatures = true } = options;
    this.tree = tree;
    this.fromIndex = tree.size;
    this.checkpoints = new ExpectedCheckpoints({ ...options, checkSignatures });
  }

  get size(): number {
    return this.tree.size;
  }

  /** Names and keys, oldest first, from where the verification began. */
  get reigns(): readonly Reign[] {
    return this.options.keys.reigns;
  }

  /**
   * @param note a checkpoint of at least the present size
   * @param isOwn whether it is the log's own, rather than one that somebody kept
   * @throws NoteError, CheckpointError when it can't be read
   */
  expect(note: string, isOwn: boolean): void {
    const { size } = this.checkpoints.add(note, this.size, isOwn);
    if (isOwn) this.provenSize = Math.max(this.provenSize, size);
    if (this.size > 0) this.compareCheckpoints();
  }

  /** Checks the next leaf. @returns its hash */
  add(leaf: Leaf): Buffer {
    const { tenantId, keys, checkSignatures = true, onNode } = this.options;
    const { index, stream, version, type, preimage, eventHash, sealedUs, signature } = leaf;
    const at = { index, stream, version };
    if (index !== this.size) this.fail('GAP', `leaf ${this.size} is missing from the log`, { index: this.size });
    this.checkChain(leaf, at);
    const isOwn = stream === `log/${tenantId}`;
    if (index === 0) this.readStart(leaf, isOwn);
    else if (isOwn && type === 'log.started') this.fail('FORK', 'the log is started a second time', at);
    if (checkSignatures && !verify(null, signatureMessage(eventHash, sealedUs), keys.eventKey, signature))
      this.fail('BAD_SIGNATURE', "the signature isn't one by the key in force", at);
    this.checkTime(leaf.occurredUs, sealedUs, at);
    if (isOwn) this.readLogEvent(leaf);
    const hash = leafHash(preimage, sealedUs, signature);
    this.tree.append(hash, onNode);
    this.compareCheckpoints();
    return hash;
  }

  /** Checks an event that isn't sealed yet; those of a stream follow its leaves. */
  addUnsealed(event: ChainedEvent): void {
    this.checkChain(event, { stream: event.stream, version: event.version });
  }

  /** To be called when all leaves were added. */
  finishLog({ uncovered, statedSize = this.size, mayBeEmpty }: LogEnd): void {
    this.checkpoints.finish(this.size);
    if (this.size > this.provenSize) {
      const what =
        this.provenSize === 0 ? 'no checkpoint covers any of' : `its checkpoint covers ${this.provenSize} of`;
      this.fail(uncovered, `${what} the ${this.size} leaves`, { index: this.provenSize });
    }
    if (statedSize !== this.size)
      this.fail('SIZE_MISMATCH', `the header speaks of ${statedSize} leaves, and there are ${this.size}`);
    const { keys, trusted, origin } = this.options;
    if (this.size === 0 && mayBeEmpty) return;
    if (this.size === 0) this.fail('UNKNOWN_KEY', 'the log has no leaves, so that nobody vouches for it');
    if (keys.current?.origin !== origin)
      this.fail('UNKNOWN_KEY', `the log says that it is ${keys.current?.origin}, not ${origin}`);
    if (!isTrusted(keys.reigns, this.size, trusted))
      this.fail('UNKNOWN_KEY', 'the log was sealed by keys that nobody here vouches for');
  }

  result(fault: Fault | null, unsealed: number): VerificationResult {
    const { keys, tenantId, origin, checkSignatures = true } = this.options;
    return {
      verdict: verdictOf(fault),
      fault,
      origin: keys.current?.origin ?? origin,
      tenantId,
      fromIndex: this.fromIndex,
      size: this.size,
      root: this.tree.root().toString('hex'),
      streams: this.streams.size,
      unsealed,
      signaturesChecked: checkSignatures,
      breaks: this.breaks,
      late: this.late,
    };
  }

  private checkChain(
    { stream, version, prevHash, eventHash, preimage, before }: ChainedEvent,
    at: Partial<Fault>,
  ): void {
    if (!sha256(preimage).equals(eventHash)) this.fail('HASH_MISMATCH', 'the event is not the one that was hashed', at);
    const genesis = genesisHash(this.options.tenantId, stream);
    const end = this.streams.get(genesis) ?? before;
    const last = end?.version ?? 0;
    if (version > last + 1) this.fail('GAP', `version ${last + 1} of the stream is missing`, at);
    if (version <= last) this.fail('FORK', 'this version of the stream was there already', at);
    if (!prevHash.equals(end?.hash ?? genesis))
      this.fail('PREV_MISMATCH', 'the event follows another one than the one before it', at);
    this.streams.set(genesis, { version, hash: eventHash });
    this.kinds.add(stream.slice(0, stream.indexOf('/')));
  }

  /** The first leaf names the log and its keys. */
  private readStart({ stream, version, type, body }: Leaf, isOwn: boolean): void {
    const at = { index: 0, stream, version };
    if (!isOwn || type !== 'log.started') this.fail('GAP', "the log's first leaf is not the event that starts it", at);
    this.checkTenant(body(), at);
    const fault = this.options.keys.start(body());
    if (fault) this.fail(fault.code, fault.detail, at);
  }

  private checkTime(occurredUs: number, sealedUs: number, at: { index: number }): void {
    const { lateAfter = LATE_AFTER } = this.options;
    if (sealedUs < this.sealedUs)
      this.fail('TIME_REVERSED', 'the event was sealed at an earlier time than the one before it in the log', at);
    this.sealedUs = sealedUs;
    const delay = sealedUs - occurredUs;
    if (delay <= lateAfter * 1000) return;
    const { count, firstIndex, greatestSeconds } = this.late ?? { count: 0, firstIndex: at.index, greatestSeconds: 0 };
    this.late = { count: count + 1, firstIndex, greatestSeconds: Math.max(greatestSeconds, Math.floor(delay / 1e6)) };
  }

  private readLogEvent({ index, stream, version, type, body }: Leaf): void {
    if (type !== 'log.key-rotated' && type !== 'log.resumed') return;
    const { keys } = this.options;
    const root = this.tree.root();
    const at = { index, stream, version };
    this.checkTenant(body(), at);
    const fault = type === 'log.resumed' ? keys.resume(body(), index, root) : keys.rotate(body(), index, root);
    if (fault) this.fail(fault.code, fault.detail, at);
    if (type === 'log.resumed') this.readBreak(body(), at);
  }

  /** What the log says of itself names whose it is. */
  private checkTenant(body: string, at: Partial<Fault>): void {
    let id: unknown;
    try {
      id = (JSON.parse(body) as { snapshot?: { id?: unknown } | null } | null)?.snapshot?.id;
    } catch {
      this.fail('BAD_SIGNATURE', 'the event about the log is not JSON', at);
    }
    if (id !== this.options.tenantId) this.fail('BAD_SIGNATURE', 'the event about the log is of another tenant', at);
  }

  private readBreak(body: string, at: { index: number }): void {
    const { abandoned, origin, oldOrigin } = (JSON.parse(body) as ResumedBody).snapshot;
    let left: Checkpoint;
    try {
      left = readUnverified(abandoned);
    } catch {
      this.fail('BAD_SIGNATURE', 'the resumption of the log names no checkpoint that it left behind', at);
    }
    this.breaks.push({ index: at.index, origin, abandonedSize: left.size, abandonedNote: abandoned });
    this.checkpoints.checkBreak(at.index, [oldOrigin, left.origin]);
  }

  private compareCheckpoints(): void {
    this.checkpoints.compare(this.size, () => this.tree.root());
  }

  private fail(code: Fault['code'], detail: string, at: Partial<Fault> = {}): never {
    throw new FaultFound({ code, detail, ...at });
  }
}
