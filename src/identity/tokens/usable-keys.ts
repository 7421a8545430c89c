import { createPublicKey } from 'node:crypto';
import type { JWK } from 'jose';

/** Below this RSA is broken by those who can pay for it, and jose refuses such a key when it is used. */
const MIN_RSA_BITS = 2048;

/** Public keys of a set that signatures can be checked with; others are left out, and what was wrong with each is told. */
export function usableKeys(keys: readonly unknown[], leftOut: (what: string) => void): JWK[] {
  return keys.filter((key): key is JWK => {
    const fault = faultOf(key);
    if (fault !== null) leftOut(`The key ${nameOf(key)} ${fault}.`);
    return fault === null;
  });
}

function faultOf(key: unknown): string | null {
  if (typeof key !== 'object' || key === null) return 'is no JSON object';
  const { kty, use } = key as JWK;
  // A shared secret has no place among published keys: whoever can verify could sign.
  if (kty === 'oct') return 'is a shared secret';
  if (use === 'enc') return null;
  try {
    const { asymmetricKeyDetails: details } = createPublicKey({ key: key as JWK & { kty: string }, format: 'jwk' });
    const bits = details?.modulusLength;
    return bits !== undefined && bits < MIN_RSA_BITS ? `has ${bits} bits, and needs ${MIN_RSA_BITS}` : null;
  } catch (error) {
    return `cannot be read (${error instanceof Error ? error.message : typeof error})`;
  }
}

function nameOf(key: unknown): string {
  const kid = (key as Partial<JWK> | null)?.kid;
  return typeof kid === 'string' ? JSON.stringify(kid) : 'without an id';
}
