import { Injectable } from '@nestjs/common';
import type { TransactionContext } from './context.js';
import type { NamedStatement } from './statement.js';
import { TransactionRunner } from './transaction-runner.js';

const FIND_SYSTEM_USER: NamedStatement = {
  name: 'find_system_user',
  text: `SELECT id FROM waybill.users WHERE tenant_id = $1 AND subject = 'system'`,
};

/** The users that tenants' own machinery acts as: for what comes without a caller, such as webhooks and recovery. */
@Injectable()
export class SystemUsers {
  /** A tenant's system user never changes. */
  private readonly known = new Map<number, string>();

  constructor(private readonly transactions: TransactionRunner) {}

  /** @returns null when there is no such tenant */
  async contextOf(tenantId: number, requestId: string): Promise<TransactionContext | null> {
    const userId = this.known.get(tenantId) ?? (await this.find(tenantId, requestId));
    return userId === null ? null : { tenantId, userId, roles: ['system'], requestId };
  }

  private async find(tenantId: number, requestId: string): Promise<string | null> {
    const nobody = { tenantId, userId: null, roles: [], requestId };
    const [user] = await this.transactions.run(nobody, 'read', (tx) =>
      tx.rows<{ id: string }>(FIND_SYSTEM_USER, [tenantId]),
    );
    if (!user) return null;
    this.known.set(tenantId, user.id);
    return user.id;
  }
}
