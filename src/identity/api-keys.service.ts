import { Injectable } from '@nestjs/common';
import { v7 as uuid } from 'uuid';
import { DEFAULT_PAGE } from '../validation/index.js';
import { parseTimestamp } from '../common/index.js';
import type { TenantTransaction } from '../database/index.js';
import { makeApiKey } from './api-key.js';
import { type ApiKey, ApiKeysRepository } from './api-keys.repository.js';
import { type Credential, CredentialCache } from './credential-cache.js';
import type { CreateApiKeyBody, ListApiKeysQuery } from './dto/api-key.dto.js';
import { idPage, readIdCursor } from './id-page.js';
import { ApiKeyNotFound, SystemUserIsFixed, UnusableMember, WouldLockOut } from './identity.errors.js';
import { UsersRepository } from './users.repository.js';

/** What administrators do with the API keys of their tenant. */
@Injectable()
export class ApiKeysService {
  constructor(
    private readonly apiKeys: ApiKeysRepository,
    private readonly users: UsersRepository,
    private readonly cache: CredentialCache,
  ) {}

  async page(tx: TenantTransaction, { limit = DEFAULT_PAGE, cursor, userId }: ListApiKeysQuery) {
    const filter = { userId: userId?.toLowerCase() ?? null };
    const beforeId = readIdCursor(cursor, filter);
    return idPage(await this.apiKeys.page(tx, { ...filter, beforeId, limit: limit + 1 }), limit, filter);
  }

  async get(tx: TenantTransaction, id: string): Promise<ApiKey> {
    const key = await this.apiKeys.find(tx, id);
    if (!key) throw new ApiKeyNotFound();
    return key;
  }

  /** @returns the key with its whole text, which is kept nowhere */
  async create(tx: TenantTransaction, body: CreateApiKeyBody): Promise<ApiKey & { secret: string }> {
    const expiresAt = body.expiresAt ? (parseTimestamp(body.expiresAt, 'later') ?? null) : null;
    if (expiresAt !== null && Date.parse(expiresAt) <= Date.now()) {
      throw new UnusableMember('expiresAt', 'expiresAt must lie in the future');
    }
    const user = await this.users.find(tx, body.userId.toLowerCase());
    if (!user) throw new UnusableMember('userId', 'There is no such user. GET /v1/users lists them.');
    if (user.kind === 'system') throw new SystemUserIsFixed();
    if (user.disabledAt !== null) throw new UnusableMember('userId', 'The user is disabled. Enable it first.');
    const { text, prefix, hash } = makeApiKey(tx.context.tenantId);
    const stored = { id: uuid(), userId: user.id, name: body.name, prefix, hash, expiresAt };
    return { ...(await this.apiKeys.create(tx, stored)), secret: text };
  }

  /** Takes effect in this process at once. Revoking a revoked key changes nothing. */
  async revoke(tx: TenantTransaction, caller: Credential, id: string): Promise<void> {
    if (caller.keyId === id)
      throw new WouldLockOut('This request was made with this very key. Revoke it with another.');
    const key = await this.apiKeys.revoke(tx, id);
    if (!key) throw new ApiKeyNotFound();
    this.cache.distrust(tx.context.tenantId, key.userId);
  }
}
