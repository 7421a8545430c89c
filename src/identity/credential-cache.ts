import { LRUCache } from 'lru-cache';
import type { Principal } from '../database/index.js';

/** What accepted credentials stand for. */
export interface Credential {
  principal: Principal;
  /** The API key's id; null for a token. */
  keyId: string | null;
  /** Milliseconds since 1970 from when on it isn't accepted any more; Infinity for never. */
  expiresAt: number;
}

export const FRESH_MS = 5_000;
const REMEMBERED_MS = 600_000;
/** Longer than any transaction can last; see `distrust`. */
const DISTRUST_MS = 60_000;
const MAX_ENTRIES = 10_000;

interface Accepted {
  credential: Credential;
  /** Monotonic milliseconds. */
  freshUntil: number;
}

/**
 * What was found out about credentials lately, by the SHA-256 of their text. Accepted and refused ones lie apart, so
 * that a flood of wrong keys pushes out no good one. An accepted one is good for five seconds without asking again:
 * that is how long another process may go on accepting a key that was revoked here.
 */
export class CredentialCache {
  private readonly accepted = new LRUCache<string, Accepted>({ max: MAX_ENTRIES, ttl: REMEMBERED_MS });
  private readonly refused = new LRUCache<string, true>({ max: MAX_ENTRIES, ttl: FRESH_MS });
  private readonly distrusted = new LRUCache<string, true>({ max: MAX_ENTRIES, ttl: DISTRUST_MS });

  /** The credential, when it needs no question now. */
  fresh(hash: string): Credential | undefined {
    const found = this.accepted.get(hash);
    return found && performance.now() < found.freshUntil ? found.credential : undefined;
  }

  /** Whether it was accepted in the last minutes, though it has to be looked up again. */
  wasAccepted(hash: string): boolean {
    return this.accepted.has(hash);
  }

  wasRefused(hash: string): boolean {
    return this.refused.has(hash);
  }

  accept(hash: string, credential: Credential): void {
    const isTrusted = !this.distrusted.has(nameOf(credential.principal));
    // What is left of its life is asked for once. From then on a clock that is set back keeps nothing alive.
    const freshMs = Math.min(FRESH_MS, credential.expiresAt - Date.now());
    this.accepted.set(hash, { credential, freshUntil: isTrusted ? performance.now() + freshMs : 0 });
  }

  refuse(hash: string): void {
    this.accepted.delete(hash);
    this.refused.set(hash, true);
  }

  /**
   * Says that a user, or one of his keys, is being changed. From now on he is looked up at every request, for longer
   * than the change's transaction can take: whatever it is that commits, the next request sees it.
   */
  distrust(tenantId: number, userId: string): void {
    const name = nameOf({ tenantId, userId });
    this.distrusted.set(name, true);
    // Whose the refused ones are isn't known; one of them may be about to become good again.
    this.refused.clear();
    for (const entry of this.accepted.values()) if (nameOf(entry.credential.principal) === name) entry.freshUntil = 0;
  }
}

function nameOf({ tenantId, userId }: Pick<Principal, 'tenantId' | 'userId'>): string {
  return `${tenantId}/${userId}`;
}
