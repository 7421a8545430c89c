import { NoteError, type NoteVerifier, parseVerifierKey } from '../format/signed-note.js';
import type { Reign } from './key-chain.js';

/** A checkpoint key that a verifier knows from elsewhere. */
export interface TrustedKey extends NoteVerifier {
  /** Largest size that it vouches for: a key that was given up is worth nothing after that. None without it. */
  maxSize?: number;
}

/**
 * Reads `KEY` or `KEY@<max size>`.
 *
 * @throws NoteError
 */
export function parseTrustedKey(text: string): TrustedKey {
  const [, key, limit] = /^(.*)@(0|[1-9]\d{0,15})$/su.exec(text) ?? [];
  if (key === undefined) return parseVerifierKey(text);
  const maxSize = Number(limit);
  if (!Number.isSafeInteger(maxSize)) throw new NoteError('the size behind a verifier key is too large');
  return { ...parseVerifierKey(key), maxSize };
}

export function vouchesFor({ maxSize = Infinity }: TrustedKey, size: number): boolean {
  return size <= maxSize;
}

/**
 * Whether a key that is trusted is one of a log's, and vouches for all that it signed there.
 *
 * @param size leaves of the log
 */
export function isTrusted(reigns: readonly Reign[], size: number, trusted: readonly TrustedKey[]): boolean {
  return reigns.some(({ origin, checkpointKey }, at) => {
    const lastSigned = reigns[at + 1]?.validFrom ?? size;
    return trusted.some(
      (key) => key.name === origin && key.rawPublicKey.equals(checkpointKey) && vouchesFor(key, lastSigned),
    );
  });
}
