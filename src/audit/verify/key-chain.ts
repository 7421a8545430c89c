import { verify } from 'node:crypto';
import { rotationMessage } from '../format/event-hash.js';
import { type NoteVerifier, parseVerifierKey, verifierOf } from '../format/signed-note.js';
import type { Fault } from './fault.js';

/** What the event `log.key-rotated` says. */
export interface RotatedBody {
  snapshot: {
    id: number;
    size: number;
    /** Hex. */
    root: string;
    /** Verifier keys. */
    oldKey: string;
    newKey: string;
    /** Base64: the new key's signature over `rotationMessage`. */
    newKeySignature: string;
  };
}

interface KeyInForce {
  validFrom: number;
  verifier: NoteVerifier;
}

/** The keys of a log, one after another. Each rotation is signed by both of its keys, so trust in one reaches all. */
export class KeyChain {
  private readonly keys: KeyInForce[];

  constructor(
    readonly origin: string,
    firstKey: Buffer,
    validFrom = 0,
  ) {
    this.keys = [{ validFrom, verifier: verifierOf(origin, firstKey) }];
  }

  get current(): NoteVerifier {
    return this.keys.at(-1)!.verifier;
  }

  get verifiers(): NoteVerifier[] {
    return this.keys.map(({ verifier }) => verifier);
  }

  /** Who may sign a checkpoint of that size: the key of its last leaf, or the one that takes over right after it. */
  signersOf(size: number): NoteVerifier[] {
    return this.keys
      .filter(({ validFrom }, at) => validFrom <= size && (this.keys[at + 1]?.validFrom ?? Infinity) >= size)
      .map(({ verifier }) => verifier);
  }

  /**
   * Takes a rotation over. Its event's own signature, by the old key, is checked before.
   *
   * @param size leaves before the event, and their root
   */
  rotate(body: string, size: number, root: Buffer): Omit<Fault, 'index'> | null {
    const { snapshot } = JSON.parse(body) as RotatedBody;
    let next: NoteVerifier;
    let old: NoteVerifier;
    try {
      [old, next] = [parseVerifierKey(snapshot.oldKey), parseVerifierKey(snapshot.newKey)];
    } catch {
      return bad('names no keys');
    }
    if (!old.rawPublicKey.equals(this.current.rawPublicKey)) return bad('starts from another key');
    if (next.name !== this.origin || snapshot.size !== size || snapshot.root !== root.toString('hex'))
      return bad('was made for another place in a log');
    const [oldKey, newKey] = [old.rawPublicKey, next.rawPublicKey];
    const message = rotationMessage({ origin: this.origin, size, root, oldKey, newKey });
    if (!verify(null, message, next.publicKey, Buffer.from(snapshot.newKeySignature, 'base64')))
      return bad("lacks the new key's signature");
    this.keys.push({ validFrom: size + 1, verifier: next });
    return null;
  }
}

function bad(detail: string): Omit<Fault, 'index'> {
  return { code: 'BAD_SIGNATURE', detail: `the rotation of the key ${detail}` };
}
