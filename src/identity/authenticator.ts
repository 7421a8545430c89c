import { hash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { v7 as uuid } from 'uuid';
import { isUnavailable } from '../problems/index.js';
import { TransactionRunner } from '../database/index.js';
import { isSameHash, type ParsedApiKey, parseApiKey } from './api-key.js';
import { ApiKeysRepository, type UsableApiKey } from './api-keys.repository.js';
import { type Credential, CredentialCache } from './credential-cache.js';
import { Unauthenticated } from './identity.errors.js';
import { RateLimits } from './rate-limits.js';
import { TenantsRepository } from './tenants.repository.js';
import { TokenVerifier } from './tokens/token-verifier.js';
import { UsersRepository } from './users.repository.js';

/** Who sends credentials. */
export interface Sender {
  address: string;
  requestId: string;
}

/** Stands in for the hash of a key that doesn't exist, so that the comparison is done for it as well. */
const NO_HASH = Buffer.alloc(32);

/** Finds out whom an API key or a token belongs to. */
@Injectable()
export class Authenticator {
  /** Look-ups that run now: requests that come with the same credentials meanwhile share the outcome. */
  private readonly running = new Map<string, Promise<Credential>>();

  constructor(
    private readonly cache: CredentialCache,
    private readonly limits: RateLimits,
    private readonly apiKeys: ApiKeysRepository,
    private readonly users: UsersRepository,
    private readonly tenants: TenantsRepository,
    private readonly transactions: TransactionRunner,
    /** Null where no identity provider is set. */
    @Inject(TokenVerifier) private readonly tokens: TokenVerifier | null,
  ) {}

  /**
   * @param text what follows `Bearer`
   * @throws Unauthenticated when it isn't good
   * @throws RateLimited when too much from this address was not, and this wasn't accepted lately either
   */
  async identify(text: string, sender: Sender): Promise<Credential> {
    const digest = hash('sha256', text, 'base64');
    const known = this.cache.fresh(digest) ?? this.running.get(digest);
    if (known) return known;
    const running = this.lookUp(text, digest, sender).finally(() => this.running.delete(digest));
    this.running.set(digest, running);
    return running;
  }

  /**
   * An attempt is counted as a failure until it has succeeded, so that many at once can't slip through. One that was
   * refused a moment ago costs nothing and is no guess: a client that repeats a revoked key spoils nobody's quota.
   */
  private async lookUp(text: string, hash: string, sender: Sender): Promise<Credential> {
    if (this.cache.wasRefused(hash)) throw new Unauthenticated('These credentials are not accepted.');
    const isCounted = !this.cache.wasAccepted(hash);
    if (isCounted) this.limits.failures.take(sender.address);
    try {
      const credential = await this.verify(text, sender.requestId);
      this.cache.accept(hash, credential);
      if (isCounted) this.limits.failures.giveBack(sender.address);
      return credential;
    } catch (error) {
      if (error instanceof Unauthenticated) this.cache.refuse(hash);
      // A database that is away is nobody's failure to sign in.
      if (isCounted && isUnavailable(error)) this.limits.failures.giveBack(sender.address);
      throw error;
    }
  }

  private verify(text: string, requestId: string): Promise<Credential> {
    if (text.startsWith('wb_')) return this.verifyKey(text, requestId);
    if (this.tokens) return this.verifyToken(this.tokens, text, requestId);
    throw new Unauthenticated('This is not an API key, and tokens are not accepted here.');
  }

  private async verifyKey(text: string, requestId: string): Promise<Credential> {
    const given = parseApiKey(text);
    const known = given && (await this.findKey(given, requestId));
    const isRight = given !== null && isSameHash(given.hash, known?.hash ?? NO_HASH);
    if (!given || !known || !isRight) throw new Unauthenticated('The API key is unknown, expired or revoked.');
    const { id, userId, roles, expiresAt } = known;
    const principal = { tenantId: given.tenantId, userId, roles };
    return { principal, keyId: id, expiresAt: expiresAt === null ? Infinity : Date.parse(expiresAt) };
  }

  private findKey({ tenantId, prefix }: ParsedApiKey, requestId: string): Promise<UsableApiKey | null> {
    const nobody = { tenantId, userId: null, roles: [], requestId };
    return this.transactions.run(nobody, 'read', (tx) => this.apiKeys.findUsable(tx, prefix));
  }

  private async verifyToken(tokens: TokenVerifier, text: string, requestId: string): Promise<Credential> {
    const claims = await tokens.verify(text);
    const tenantId = await this.tenants.find(claims.tenant);
    if (tenantId === null) throw new Unauthenticated('The token is not accepted here.');
    const nobody = { tenantId, userId: null, roles: [], requestId };
    const user = await this.transactions.run(nobody, 'write', (tx) => this.users.meet(tx, uuid(), claims));
    // The subject of a service or of the system user is not for people: a token could otherwise act as one.
    if (!user || user.disabled || user.kind !== 'human') throw new Unauthenticated('The token is not accepted here.');
    return {
      principal: { tenantId, userId: user.id, roles: claims.roles },
      keyId: null,
      expiresAt: claims.expiresAt,
    };
  }
}
