import type { KeyObject } from 'node:crypto';
import { verify } from 'node:crypto';
import { type LogPublicKeys, rotationMessage } from '../format/event-hash.js';
import { areSameKeys } from '../format/log-keys.js';
import {
  decodeBase64,
  NoteError,
  type NoteVerifier,
  parseVerifierKey,
  publicKeyOf,
  verifierOf,
} from '../format/signed-note.js';
import type { Fault } from './fault.js';

/** What the event `log.started` says, the first leaf of every log. */
export interface StartedBody {
  snapshot: {
    id: number;
    origin: string;
    /** Verifier keys. */
    checkpointKey: string;
    eventKey: string;
  };
}

/** What the event `log.key-rotated` says. */
export interface RotatedBody {
  snapshot: {
    id: number;
    size: number;
    /** Hex. */
    root: string;
    /** Verifier keys. */
    oldCheckpointKey: string;
    oldEventKey: string;
    newCheckpointKey: string;
    newEventKey: string;
    /** Base64: signatures of both checkpoint keys over `rotationMessage`. */
    oldKeySignature: string;
    newKeySignature: string;
  };
}

/** Name and keys that a log has from one leaf on. */
export interface Reign extends LogPublicKeys {
  origin: string;
  /** Index of the first leaf that the event key signs. */
  validFrom: number;
}

type ChainFault = Omit<Fault, 'index'>;

/**
 * Names and keys of a log, one after another, as its own events tell. The first leaf names the first ones; what makes them
 * true is the signature of a checkpoint over it. Each rotation is signed by both of its checkpoint keys, so trust in one
 * reaches all.
 */
export class KeyChain {
  private readonly all: Reign[] = [];
  private eventVerifier: KeyObject | null = null;

  /** @param begin what is in force where a verification begins in the middle */
  constructor(begin?: Reign) {
    if (begin) this.add(begin);
  }

  /** Oldest first; none before the first leaf. */
  get reigns(): readonly Reign[] {
    return this.all;
  }

  get current(): Reign | undefined {
    return this.all.at(-1);
  }

  /** What checks the next event's signature. */
  get eventKey(): KeyObject {
    if (!this.eventVerifier) throw new Error('the log has not begun');
    return this.eventVerifier;
  }

  /** Those that sign checkpoints. */
  get verifiers(): NoteVerifier[] {
    return this.all.map(({ origin, checkpointKey }) => verifierOf(origin, checkpointKey));
  }

  /** What the log was called when it had that size. */
  originOf(size: number): string | undefined {
    return (this.all.findLast(({ validFrom }) => validFrom < size) ?? this.all[0])?.origin;
  }

  /** Who may sign a checkpoint of that size: the key of its last leaf, or the one that takes over right after it. */
  signersOf(size: number): NoteVerifier[] {
    const origin = this.originOf(size);
    return this.all
      .filter(({ validFrom }, at) => validFrom <= size && (this.all[at + 1]?.validFrom ?? Infinity) >= size)
      .filter((reign) => reign.origin === origin)
      .map(({ checkpointKey }) => verifierOf(origin ?? '', checkpointKey));
  }

  /** Takes the names and keys of the first leaf. */
  start(body: string): ChainFault | null {
    const snapshot = snapshotOf<StartedBody>(body);
    const keys = snapshot && keysOf(snapshot.origin, snapshot.checkpointKey, snapshot.eventKey);
    if (!keys) return bad('the event that starts the log names no keys of it');
    this.add({ origin: snapshot.origin, validFrom: 0, ...keys });
    return null;
  }

  /**
   * Takes a rotation over. Its event's own signature, by the old event key, is checked before.
   *
   * @param size leaves before the event, and their root
   */
  rotate(body: string, size: number, root: Buffer): ChainFault | null {
    const { current } = this;
    const snapshot = snapshotOf<RotatedBody>(body);
    const old = snapshot && current && keysOf(current.origin, snapshot.oldCheckpointKey, snapshot.oldEventKey);
    const next = snapshot && current && keysOf(current.origin, snapshot.newCheckpointKey, snapshot.newEventKey);
    if (!old || !next) return bad('the rotation of the keys names no keys of this log');
    if (!areSameKeys(old, current)) return bad('the rotation of the keys starts from others');
    if (snapshot.size !== size || snapshot.root !== root.toString('hex'))
      return bad('the rotation of the keys was made for another place in a log');
    const message = rotationMessage({ origin: current.origin, size, root, old, next });
    if (!isSigned(message, snapshot.oldKeySignature, old))
      return bad("the rotation of the keys lacks the old key's signature");
    if (!isSigned(message, snapshot.newKeySignature, next))
      return bad("the rotation of the keys lacks the new key's signature");
    this.add({ origin: current.origin, validFrom: size + 1, ...next });
    return null;
  }

  /**
   * Takes over the name under which a restored log goes on.
   *
   * @param size leaves before the event, and their root
   */
  resume(body: string, size: number, root: Buffer): ChainFault | null {
    const { current } = this;
    const snapshot = snapshotOf<ResumedBody>(body);
    const keys = snapshot && keysOf(snapshot.origin, snapshot.checkpointKey, snapshot.eventKey);
    if (!keys || !current) return bad('the resumption of the log names no keys');
    if (!areSameKeys(keys, current)) return bad('the resumption of the log changes its keys');
    if (snapshot.oldOrigin !== current.origin || this.all.some(({ origin }) => origin === snapshot.origin))
      return bad('the resumption of the log goes on under a name that it had before, or from another one');
    if (snapshot.size !== size || snapshot.root !== root.toString('hex'))
      return bad('the resumption of the log was made for another place in a log');
    this.add({ origin: snapshot.origin, validFrom: size, ...keys });
    return null;
  }

  private add(reign: Reign): void {
    this.all.push(reign);
    this.eventVerifier = publicKeyOf(reign.eventKey);
  }
}

/** What the event `log.resumed` says. */
export interface ResumedBody {
  snapshot: {
    id: number;
    /** The log's new name, and the one before. */
    origin: string;
    oldOrigin: string;
    /** The last note that was published before; the log no longer meets it. */
    abandoned: string;
    /** Leaves before this event, and their root in hex. */
    size: number;
    root: string;
    /** Verifier keys: the ones before, under the new name. */
    checkpointKey: string;
    eventKey: string;
  };
}

function snapshotOf<Body extends { snapshot: object }>(body: string): Body['snapshot'] | null {
  try {
    const { snapshot } = JSON.parse(body) as { snapshot?: unknown };
    return typeof snapshot === 'object' ? snapshot : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** @returns null unless both are verifier keys of that name */
function keysOf(origin: unknown, checkpointKey: unknown, eventKey: unknown): LogPublicKeys | null {
  if (typeof origin !== 'string' || typeof checkpointKey !== 'string' || typeof eventKey !== 'string') return null;
  try {
    const [checkpoints, events] = [parseVerifierKey(checkpointKey), parseVerifierKey(eventKey)];
    if (checkpoints.name !== origin || events.name !== origin) return null;
    return { checkpointKey: checkpoints.rawPublicKey, eventKey: events.rawPublicKey };
  } catch (error) {
    if (error instanceof NoteError) return null;
    throw error;
  }
}

function isSigned(message: Buffer, signature: unknown, { checkpointKey }: LogPublicKeys): boolean {
  const bytes = typeof signature === 'string' ? decodeBase64(signature) : undefined;
  return bytes !== undefined && verify(null, message, publicKeyOf(checkpointKey), bytes);
}

function bad(detail: string): ChainFault {
  return { code: 'BAD_SIGNATURE', detail };
}
