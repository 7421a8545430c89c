import { type Checkpoint, CheckpointError, parseCheckpoint } from '../format/checkpoint.js';
import { NoteError, type NoteVerifier, openNote, parseNote, UnknownSignerError } from '../format/signed-note.js';
import { type Fault, FaultFound } from './fault.js';
import type { KeyChain } from './key-chain.js';
import { type TrustedKey, vouchesFor } from './trusted-key.js';

interface Expected extends Checkpoint {
  note: string;
  /** The log's own, which must be right; one that somebody kept must first show that it is authentic. */
  isOwn: boolean;
  isAuthentic: boolean;
}

export interface CheckpointTrust {
  /** What the log is called, by whoever holds it. */
  origin: string;
  keys: KeyChain;
  trusted: readonly TrustedKey[];
  checkSignatures: boolean;
}

/** Checkpoints that a log must meet. Signatures are looked at first: a forged note accuses nobody. */
export class ExpectedCheckpoints {
  /** Sorted by size; those that were met are gone. */
  private readonly notes: Expected[] = [];

  constructor(private readonly trust: CheckpointTrust) {}

  /**
   * @param size leaves that were read, of which it must cover as many at least
   * @throws NoteError, CheckpointError when it can't be read
   */
  add(note: string, size: number, isOwn: boolean): Checkpoint {
    const checkpoint = readUnverified(note);
    if (checkpoint.size < size) throw new Error(`leaf ${checkpoint.size} is behind this verification`);
    const expected = { ...checkpoint, note, isOwn, isAuthentic: false };
    if (!isOwn) {
      const trusted = this.trust.trusted.filter((key) => vouchesFor(key, checkpoint.size));
      expected.isAuthentic = this.isSigned(expected, trusted);
    }
    // Of one size the kept ones first.
    const place = this.notes.findIndex(
      (other) => other.size > checkpoint.size || (other.size === checkpoint.size && other.isOwn && !isOwn),
    );
    this.notes.splice(place === -1 ? this.notes.length : place, 0, expected);
    return checkpoint;
  }

  /** To be called whenever the log has grown. */
  compare(size: number, root: () => Buffer): void {
    while (this.notes[0]?.size === size) {
      const expected = this.notes.shift()!;
      this.authenticate(expected, this.trust.keys.signersOf(size));
      this.checkOrigin(expected, this.trust.keys.originOf(size));
      if (expected.root.equals(root())) continue;
      if (expected.isOwn) fail('ROOT_MISMATCH', `the ${size} leaves have another root than their checkpoint`);
      fail('INCONSISTENT', `the first ${size} leaves are not those of a checkpoint that was given`);
    }
  }

  /**
   * What one of these names signed beyond a break was left behind.
   *
   * @param index leaf that tells of the break
   */
  checkBreak(index: number, origins: readonly string[]): void {
    for (const expected of this.notes) {
      if (expected.isOwn || expected.size <= index || !origins.includes(expected.origin)) continue;
      this.authenticate(expected, this.trust.keys.verifiers);
      const said = `leaf ${index} says that the log was restored to an older state`;
      fail(
        'INCONSISTENT',
        `${said}; a checkpoint of ${expected.size} leaves that was given is of what was left behind`,
      );
    }
  }

  /** To be called when there are no more leaves. */
  finish(size: number): void {
    const kept = this.notes.find(({ isOwn }) => !isOwn);
    const beyond = kept ?? this.notes[0];
    if (!beyond) return;
    if (!beyond.isOwn) {
      this.authenticate(beyond, this.trust.keys.verifiers);
      this.checkOrigin(beyond, this.trust.keys.current?.origin);
    }
    fail('SIZE_BELOW_CHECKPOINT', `the log has ${size} leaves, its checkpoint ${beyond.size}`);
  }

  private authenticate(expected: Expected, signers: readonly NoteVerifier[]): void {
    if (!this.trust.checkSignatures || expected.isAuthentic || this.isSigned(expected, signers)) return;
    fail('UNKNOWN_KEY', `nobody who is known signed the checkpoint of ${expected.size} leaves`);
  }

  /** A wrong signature by one of them is a fault. */
  private isSigned({ note, origin, size, isOwn }: Expected, signers: readonly NoteVerifier[]): boolean {
    try {
      openNote(
        note,
        signers.filter(({ name }) => name === origin),
      );
      return true;
    } catch (error) {
      if (error instanceof UnknownSignerError) return false;
      if (!(error instanceof NoteError)) throw error;
      return fail(isOwn ? 'BAD_SIGNATURE' : 'BAD_CHECKPOINT', `the checkpoint of ${size} leaves: ${error.message}`);
    }
  }

  private checkOrigin({ origin, size }: Expected, own = this.trust.origin): void {
    if (origin !== own) fail('UNKNOWN_KEY', `the checkpoint of ${size} leaves is of the log ${origin}, not of ${own}`);
  }
}

function fail(code: Fault['code'], detail: string): never {
  throw new FaultFound({ code, detail });
}

/** @throws NoteError, CheckpointError */
export function readUnverified(note: string): Checkpoint {
  const checkpoint = parseCheckpoint(parseNote(note).text);
  if (checkpoint.size === 0) throw new CheckpointError('a checkpoint of no leaves: no log signs one');
  return checkpoint;
}
