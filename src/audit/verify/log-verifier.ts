import { verify } from 'node:crypto';
import { type Checkpoint, parseCheckpoint } from '../format/checkpoint.js';
import {
  eventPreimage,
  genesisHash,
  type HashedEvent,
  leafHash,
  sha256,
  signatureMessage,
} from '../format/event-hash.js';
import { CompactTree, type Subtree } from '../format/merkle.js';
import { NoteError, type NoteVerifier, openNote, parseNote, UnknownSignerError } from '../format/signed-note.js';
import {
  type Fault,
  FaultFound,
  type LateSealing,
  type LogBreak,
  type VerificationResult,
  verdictOf,
} from './fault.js';
import type { KeyChain, ResumedBody } from './key-chain.js';
import { type StreamEnd, StreamTable } from './stream-table.js';

/** A sealed event as an export or the database shows it. */
export interface Leaf {
  index: number;
  event: HashedEvent;
  /** As stored beside the event. */
  eventHash: Buffer;
  /** When it was signed, in microseconds since 1970-01-01T00:00:00Z. */
  sealedUs: number;
  signature: Buffer;
  /** Where the verification begins in the middle: the end of the event's stream before it. */
  before?: StreamEnd;
}

/** A day in milliseconds. */
const LATE_AFTER = 86_400_000;

/** A checkpoint from outside or inside, to be compared with the tree when it has that size. */
interface Expected extends Checkpoint {
  note: string;
  /** The log's last one must be met exactly; others belong to its past. */
  isLast: boolean;
}

export interface LogVerifierOptions {
  tenantId: number;
  /** What the log is called, by whoever holds it. */
  origin: string;
  keys: KeyChain;
  /** Keys of which one must be in the chain, known from outside. */
  trusted: readonly NoteVerifier[];
  checkSignatures?: boolean;
  /** Milliseconds from an event to its sealing from which on it is reported as late; a day without it. */
  lateAfter?: number;
  /** The tree of the leaves that were verified earlier. */
  tree?: CompactTree;
  onNode?: (node: Subtree, hash: Buffer) => void;
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
  private late: LateSealing | null = null;
  private sealedUs = 0;
  /** Sorted by size; those that were met are gone. */
  private readonly expected: Expected[] = [];
  /** Leaves that the log's own last checkpoint covers. */
  private provenSize: number;

  constructor(private readonly options: LogVerifierOptions) {
    this.tree = options.tree ?? new CompactTree();
    this.fromIndex = this.tree.size;
    this.provenSize = this.tree.size;
  }

  get size(): number {
    return this.tree.size;
  }

  /**
   * @param note a checkpoint of at least the present size
   * @param isLast whether it is the log's own last one, rather than one that somebody kept
   */
  expect(note: string, isLast: boolean): void {
    const checkpoint = readUnverified(note);
    if (checkpoint.size < this.size) throw new Error(`leaf ${checkpoint.size} is behind this verification`);
    const place = this.expected.findIndex(({ size }) => size > checkpoint.size);
    if (isLast) this.provenSize = Math.max(this.provenSize, checkpoint.size);
    this.expected.splice(place === -1 ? this.expected.length : place, 0, { ...checkpoint, note, isLast });
    this.compareExpected();
  }

  /** Checks the next leaf. @returns its hash */
  add({ index, event, eventHash, sealedUs, signature, before }: Leaf): Buffer {
    const { keys, checkSignatures = true, onNode } = this.options;
    const at = { index, stream: event.stream, version: event.version };
    if (index !== this.size) this.fail('GAP', `leaf ${this.size} is missing from the log`, { index: this.size });
    const preimage = this.checkChain(event, eventHash, at, before);
    if (index === 0) this.readStart(event);
    if (checkSignatures && !verify(null, signatureMessage(eventHash, sealedUs), keys.eventKey, signature))
      this.fail('BAD_SIGNATURE', "the signature isn't one by the key in force", at);
    this.checkTime(event.occurredUs, sealedUs, at);
    if (event.stream === `log/${event.tenantId}`) this.readLogEvent(event, index);
    const leaf = leafHash(preimage, sealedUs, signature);
    this.tree.append(leaf, onNode);
    this.compareExpected();
    return leaf;
  }

  /** Checks an event that isn't sealed yet; those of a stream follow its leaves. */
  addUnsealed(event: HashedEvent, eventHash: Buffer, before?: StreamEnd): void {
    this.checkChain(event, eventHash, { stream: event.stream, version: event.version }, before);
  }

  /**
   * To be called when all leaves were added.
   *
   * @param uncovered what it is called when leaves come after the log's own last checkpoint
   */
  finishLog(uncovered: 'UNPROVEN_TAIL' | 'MISSING_CHECKPOINT'): void {
    const beyond = this.expected.at(-1);
    if (beyond) {
      this.checkOrigin(beyond);
      this.fail('SIZE_BELOW_CHECKPOINT', `the log has ${this.size} leaves, its checkpoint ${beyond.size}`);
    }
    if (this.size > this.provenSize) {
      const what =
        this.provenSize === 0 ? 'no checkpoint covers any of' : `its checkpoint covers ${this.provenSize} of`;
      this.fail(uncovered, `${what} the ${this.size} leaves`, { index: this.provenSize });
    }
    const { keys, trusted, origin } = this.options;
    if (this.size > 0 && keys.current?.origin !== origin)
      this.fail('UNKNOWN_KEY', `the log says that it is ${keys.current?.origin}, not ${origin}`);
    const isTrusted = keys.verifiers.some(({ rawPublicKey, name }) =>
      trusted.some((known) => known.name === name && known.rawPublicKey.equals(rawPublicKey)),
    );
    if (this.size > 0 && !isTrusted)
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

  private checkChain(event: HashedEvent, stored: Buffer, at: Partial<Fault>, before?: StreamEnd): Buffer {
    const { stream, version } = event;
    const preimage = eventPreimage(event);
    if (!sha256(preimage).equals(stored)) this.fail('HASH_MISMATCH', 'the event is not the one that was hashed', at);
    const genesis = genesisHash(event.tenantId, stream);
    const end = this.streams.get(genesis) ?? before;
    const last = end?.version ?? 0;
    if (version > last + 1) this.fail('GAP', `version ${last + 1} of the stream is missing`, at);
    if (version <= last) this.fail('FORK', 'this version of the stream was there already', at);
    if (!event.prevHash.equals(end?.hash ?? genesis))
      this.fail('PREV_MISMATCH', 'the event follows another one than the one before it', at);
    this.streams.set(genesis, { version, hash: stored });
    this.kinds.add(stream.slice(0, stream.indexOf('/')));
    return preimage;
  }

  /** The first leaf names the log and its keys. */
  private readStart({ tenantId, stream, version, type, body }: HashedEvent): void {
    const at = { index: 0, stream, version };
    if (stream !== `log/${tenantId}` || type !== 'log.started')
      this.fail('GAP', "the log's first leaf is not the event that starts it", at);
    const fault = this.options.keys.start(body);
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

  private readLogEvent({ type, body }: HashedEvent, index: number): void {
    const { keys } = this.options;
    const root = this.tree.root();
    if (type === 'log.started' && index > 0) this.fail('FORK', 'the log is started a second time', { index });
    const fault =
      type === 'log.key-rotated'
        ? keys.rotate(body, index, root)
        : type === 'log.resumed'
          ? keys.resume(body, index, root)
          : null;
    if (fault) this.fail(fault.code, fault.detail, { index });
    if (type === 'log.resumed') this.readBreak(body, index);
  }

  /** What an earlier name signed beyond the break was left behind. */
  private readBreak(body: string, index: number): void {
    const { abandoned, origin, oldOrigin } = (JSON.parse(body) as ResumedBody).snapshot;
    const left = readUnverified(abandoned);
    this.breaks.push({ index, origin, abandonedSize: left.size, abandonedNote: abandoned });
    const lost = this.expected.find(
      (kept) => (kept.origin === oldOrigin || kept.origin === left.origin) && kept.size > index,
    );
    if (!lost) return;
    const detail = `leaf ${index} says that the log was restored to an older state; a checkpoint of ${lost.size} leaves that was given is of what was left behind`;
    this.fail('INCONSISTENT', detail);
  }

  private compareExpected(): void {
    // Before the first leaf nobody knows who signs.
    while (this.options.keys.current && this.expected[0]?.size === this.size) {
      const expected = this.expected.shift()!;
      const { size, root, isLast, note } = expected;
      this.checkOrigin(expected);
      if (root.equals(this.tree.root())) this.checkNote(note, size);
      else if (isLast) this.fail('ROOT_MISMATCH', `the ${size} leaves have another root than their checkpoint`);
      else this.fail('INCONSISTENT', `the first ${size} leaves are not those of a checkpoint that was given`);
    }
  }

  private checkOrigin({ origin, size }: Expected): void {
    const { keys } = this.options;
    const own = keys.originOf(size) ?? this.options.origin;
    if (origin !== own)
      this.fail('UNKNOWN_KEY', `the checkpoint of ${size} leaves is of the log ${origin}, not of ${own}`);
  }

  private checkNote(note: string, size: number): void {
    if (this.options.checkSignatures === false) return;
    try {
      openNote(note, this.options.keys.signersOf(size));
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      const code = error instanceof UnknownSignerError ? 'UNKNOWN_KEY' : 'BAD_SIGNATURE';
      this.fail(code, `the checkpoint of ${size} leaves: ${error.message}`);
    }
  }

  private fail(code: Fault['code'], detail: string, at: Partial<Fault> = {}): never {
    throw new FaultFound({ code, detail, ...at });
  }
}

/** @throws NoteError, CheckpointError */
export function readUnverified(note: string): Checkpoint {
  return parseCheckpoint(parseNote(note).text);
}
