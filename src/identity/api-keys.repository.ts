import { Injectable } from '@nestjs/common';
import { type NamedStatement, TransactionRunner } from '../database/index.js';

/** A key that may be used now, with the user it belongs to. */
export interface UsableApiKey {
  hash: Buffer;
  userId: string;
  roles: string[];
}

const FIND_USABLE: NamedStatement = {
  name: 'find_usable_api_key',
  text: `SELECT k.hash, u.id AS "userId", u.roles
         FROM waybill.api_keys k JOIN waybill.users u ON u.tenant_id = $1 AND u.id = k.user_id
         WHERE k.tenant_id = $1 AND k.prefix = $2 AND k.revoked_at IS NULL AND u.disabled_at IS NULL
           AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())`,
};

@Injectable()
export class ApiKeysRepository {
  constructor(private readonly transactions: TransactionRunner) {}

  /** Before anybody is known: the tenant comes from the key's text, and there is no actor yet. */
  async findUsable(tenantId: number, prefix: string, requestId: string): Promise<UsableApiKey | null> {
    const nobody = { tenantId, userId: null, roles: [], requestId };
    const [key] = await this.transactions.run(nobody, 'read', (tx) =>
      tx.rows<UsableApiKey>(FIND_USABLE, [tenantId, prefix]),
    );
    return key ?? null;
  }
}
