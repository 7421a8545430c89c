import { createLocalJWKSet, errors, type FlattenedJWSInput, type JSONWebKeySet, type JWSHeaderParameters } from 'jose';
import { Logger } from '@nestjs/common';
import { DomainError, unavailable } from '../../problems/index.js';
import { usableKeys } from './usable-keys.js';

/** From this age on the keys are fetched again, beside the requests. */
const REFRESH_MS = 600_000;
/** From this age on a request waits for the fetch, so that an idle service doesn't accept a key withdrawn long ago. */
const WAIT_MS = 900_000;
/** Keys serve on for so long while their address is unreachable. */
const MAX_AGE_MS = 86_400_000;
/** Fetches are at least so far apart, whatever tokens come. */
const COOLDOWN_MS = 10_000;
const TIMEOUT_MS = 3_000;
const MAX_BYTES = 524_288;

export class IdentityProviderUnreachable extends DomainError<typeof unavailable> {
  constructor(cause: unknown) {
    super(unavailable, 'The keys of the identity provider cannot be fetched at the moment.', {}, { cause });
  }
}

type KeyFinder = ReturnType<typeof createLocalJWKSet>;

/**
 * The public keys of the identity provider. They are kept and served while it can't be reached. jose's own remote key
 * set refuses every token as soon as its keys are old and a fetch fails.
 */
export class JwksCache {
  private keys: KeyFinder | undefined;
  private fetchedAt = -Infinity;
  private triedAt = -Infinity;
  private failure: unknown;
  private running: Promise<void> | undefined;
  private readonly logger = new Logger(JwksCache.name);
  /** What was said of keys that can't be used, so that it is said once. */
  private readonly said = new Set<string>();

  constructor(
    private readonly uri: string,
    /** Monotonic milliseconds: a clock that is set back makes no key younger. */
    private readonly now: () => number = () => performance.now(),
  ) {}

  /**
   * The key of a token's header.
   *
   * @throws IdentityProviderUnreachable when no answer is possible: no keys yet, or an unknown key id that might be a new one
   * @throws errors.JWKSNoMatchingKey and other errors of jose when the provider has no such key
   */
  async find(header: JWSHeaderParameters, token: FlattenedJWSInput): ReturnType<KeyFinder> {
    const age = this.now() - this.fetchedAt;
    if (age > REFRESH_MS) {
      const refreshed = this.refresh();
      // While the provider is known to fail, nobody waits for it: what can still serve does.
      if (!this.isUsable() || (age > WAIT_MS && this.failure === undefined)) await refreshed;
    }
    try {
      return await this.current()(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await this.refresh();
      if (this.failure !== undefined) throw new IdentityProviderUnreachable(this.failure);
      return this.current()(header, token);
    }
  }

  /**
   * Asks the provider whether it has other keys by now: for a token that names none, and that none of those at hand signed.
   *
   * @returns whether it answered; false within ten seconds of the last question
   */
  async renew(): Promise<boolean> {
    const { fetchedAt } = this;
    await this.refresh();
    return this.fetchedAt !== fetchedAt;
  }

  private current(): KeyFinder {
    if (!this.keys || !this.isUsable()) throw new IdentityProviderUnreachable(this.failure);
    return this.keys;
  }

  private isUsable(): boolean {
    return this.now() - this.fetchedAt <= MAX_AGE_MS;
  }

  /** Never rejects; the outcome is in `failure`. Callers at the same time share one fetch. */
  private refresh(): Promise<void> {
    if (this.running) return this.running;
    if (this.now() - this.triedAt < COOLDOWN_MS) return Promise.resolve();
    this.triedAt = this.now();
    this.running = this.fetch().finally(() => {
      this.running = undefined;
    });
    return this.running;
  }

  private async fetch(): Promise<void> {
    try {
      const response = await fetch(this.uri, {
        redirect: 'error',
        headers: { accept: 'application/jwk-set+json, application/json' },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`The address of the keys answered ${response.status}`);
      if (text.length > MAX_BYTES) throw new Error(`The key set is larger than ${MAX_BYTES} bytes`);
      this.keys = createLocalJWKSet(this.keysOf(JSON.parse(text)));
      this.fetchedAt = this.now();
      this.failure = undefined;
    } catch (error) {
      this.failure = error;
    }
  }

  private keysOf(document: unknown): JSONWebKeySet {
    const { keys } = (document ?? {}) as Partial<JSONWebKeySet>;
    if (!Array.isArray(keys)) throw new Error('The address of the keys answered no key set');
    return {
      keys: usableKeys(keys, (what) => {
        if (!this.said.has(what)) this.logger.warn(`${what} Tokens that it signed are refused.`);
        this.said.add(what);
      }),
    };
  }
}
