import { hkdfSync } from 'node:crypto';
import { int8be, lengthPrefixed, type LogPublicKeys } from './event-hash.js';
import { seedOf, type SigningKey, signingKeyOf } from './signing-key.js';

/** The keys of one tenant's log: one for each use, so that neither can be made to sign what the other would. */
export interface LogKeys {
  /** Signs checkpoints, and the changes of keys. Its public half is what an auditor trusts. */
  checkpoints: SigningKey;
  /** Signs events. The log itself names it. */
  events: SigningKey;
  /** Signs what was verified. Nobody else needs to know it. */
  verifications: SigningKey;
}

const CONTEXT = Buffer.from('waybill-audit/key/v1\n');

/** The keys that a root key stands for: HKDF-SHA256 of its seed, with use and tenant as `info`. */
export function deriveLogKeys(root: SigningKey, tenantId: number): LogKeys {
  const derive = (use: string): SigningKey => {
    const info = Buffer.concat([CONTEXT, lengthPrefixed(use), int8be(tenantId)]);
    return signingKeyOf(Buffer.from(hkdfSync('sha256', seedOf(root), Buffer.alloc(0), info, 32)));
  };
  return { checkpoints: derive('checkpoints'), events: derive('events'), verifications: derive('verifications') };
}

export function publicKeysOf({ checkpoints, events }: LogKeys): LogPublicKeys {
  return { checkpointKey: checkpoints.publicKey, eventKey: events.publicKey };
}

export function areSameKeys(one: LogPublicKeys, other: LogPublicKeys): boolean {
  return one.checkpointKey.equals(other.checkpointKey) && one.eventKey.equals(other.eventKey);
}
