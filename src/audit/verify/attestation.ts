import { int8be, lengthPrefixed } from '../format/event-hash.js';
import { type SigningKey, signMessage } from '../format/signing-key.js';
import { verifySignature } from '../format/signed-note.js';

/** What a verification found intact. */
export interface Verified {
  origin: string;
  /** Leaves, and their root. */
  size: number;
  root: Buffer;
}

const CONTEXT = Buffer.from('waybill-audit/verified/v1\n');

/** Signs that a log was found intact, signatures and all: a later verification need not read its leaves again. */
export function attest(key: SigningKey, verified: Verified): Buffer {
  return signMessage(key, messageOf(verified));
}

export function isAttested(key: SigningKey, verified: Verified, signature: Buffer): boolean {
  return verifySignature(key.publicKey, messageOf(verified), signature);
}

function messageOf({ origin, size, root }: Verified): Buffer {
  return Buffer.concat([CONTEXT, lengthPrefixed(origin), int8be(size), root]);
}
