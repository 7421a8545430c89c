import type { NamedStatement } from '../database/index.js';
import type { IdentityTransaction } from './users.repository.js';

/** A key that may be used now, with the user it belongs to. */
export interface UsableApiKey {
  id: string;
  hash: Buffer;
  userId: string;
  roles: string[];
  /** RFC 3339 in UTC, as all times here. */
  expiresAt: string | null;
}

/** A key as it may be shown: neither its secret nor its hash. */
export interface ApiKey {
  id: string;
  userId: string;
  name: string;
  /** Begins the key's text. */
  prefix: string;
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
  lastUsedAt: string | null;
}

export interface StoredApiKey {
  id: string;
  userId: string;
  name: string;
  prefix: string;
  hash: Buffer;
  expiresAt: string | null;
}

export interface ApiKeyPage {
  userId: string | null;
  beforeId: string | null;
  limit: number;
}

const COLUMNS = `id, user_id AS "userId", name, 'wb_' || tenant_id || '_' || prefix AS prefix,
  created_at AS "createdAt", expires_at AS "expiresAt",
  revoked_at AS "revokedAt", last_used_at AS "lastUsedAt"`;

/** Every query on API keys. */
export class ApiKeysRepository {
  /** With what the database may know before anybody is known: the tenant from the key's text. */
  async findUsable(tx: IdentityTransaction, prefix: string): Promise<UsableApiKey | null> {
    const [key] = await tx.rows<UsableApiKey>(FIND_USABLE, [tx.context.tenantId, prefix]);
    return key ?? null;
  }

  /** Newest first; ids are uuid v7. */
  page(tx: IdentityTransaction, { userId, beforeId, limit }: ApiKeyPage): Promise<ApiKey[]> {
    return tx.rows<ApiKey>(PAGE, [tx.context.tenantId, userId, beforeId, limit]);
  }

  async find(tx: IdentityTransaction, id: string): Promise<ApiKey | null> {
    const [key] = await tx.rows<ApiKey>(FIND, [tx.context.tenantId, id]);
    return key ?? null;
  }

  async create(tx: IdentityTransaction, key: StoredApiKey): Promise<ApiKey> {
    const { id, userId, prefix, hash, name, expiresAt } = key;
    const [made] = await tx.rows<ApiKey>(CREATE, [tx.context.tenantId, id, userId, prefix, hash, name, expiresAt]);
    if (!made) throw new Error('create_api_key returned no key');
    return made;
  }

  /** @returns the key, revoked now or before; null when there is none */
  async revoke(tx: IdentityTransaction, id: string): Promise<ApiKey | null> {
    const [key] = await tx.rows<ApiKey>(REVOKE, [tx.context.tenantId, id]);
    return key ?? null;
  }

  /** @param uses of keys of one tenant: id and RFC 3339 time */
  async recordUse(tx: IdentityTransaction, uses: ReadonlyMap<string, string>): Promise<void> {
    await tx.rows(RECORD_USE, [tx.context.tenantId, [...uses.keys()], [...uses.values()]]);
  }
}

const FIND_USABLE: NamedStatement = {
  name: 'find_usable_api_key',
  text: `SELECT k.id, k.hash, u.id AS "userId", u.roles, k.expires_at AS "expiresAt"
         FROM waybill.api_keys k JOIN waybill.users u ON u.tenant_id = $1 AND u.id = k.user_id
         WHERE k.tenant_id = $1 AND k.prefix = $2 AND k.revoked_at IS NULL AND u.disabled_at IS NULL
           AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())`,
};

const PAGE: NamedStatement = {
  name: 'page_api_keys',
  text: `SELECT ${COLUMNS} FROM waybill.api_keys
         WHERE tenant_id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND ($3::uuid IS NULL OR id < $3)
         ORDER BY id DESC LIMIT $4`,
};

const FIND: NamedStatement = {
  name: 'find_api_key',
  text: `SELECT ${COLUMNS} FROM waybill.api_keys WHERE tenant_id = $1 AND id = $2`,
};

const CREATE: NamedStatement = {
  name: 'create_api_key',
  text: `SELECT ${COLUMNS} FROM waybill.create_api_key($1, $2, $3, $4, $5, $6, $7)`,
};

const REVOKE: NamedStatement = {
  name: 'revoke_api_key',
  text: `SELECT ${COLUMNS} FROM waybill.revoke_api_key($1, $2)`,
};

const RECORD_USE: NamedStatement = { name: 'record_key_use', text: 'SELECT waybill.record_key_use($1, $2, $3)' };
