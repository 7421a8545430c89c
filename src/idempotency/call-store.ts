import { Injectable } from '@nestjs/common';
import { bind, type BoundStatement, command, type NamedStatement, type TenantTransaction } from '../database/index.js';
import type { StartedCall, UnfinishedCall } from './external-work.js';
import type { Lease } from './lease.js';

/** A key that the recoverer took over, with its call. */
export interface TakenCall extends UnfinishedCall {
  key: string;
}

const CALL = `resource, provider_ref AS "providerRef", attempt,
  extract(epoch FROM clock_timestamp() - call_started_at)::float8 AS "ageSeconds"`;

const START = command('start_call', 'start_call', ['key', 'leaseToken', 'resource', 'providerRef']);

const FIND: NamedStatement = {
  name: 'find_call',
  text: `SELECT ${CALL} FROM waybill.idempotency_keys
         WHERE tenant_id = $1 AND idempotency_key = $2 AND lease_token = $3`,
};

const PUT_BACK: NamedStatement = {
  name: 'put_back_key',
  text: 'SELECT waybill.put_back_key($1, $2, $3, make_interval(secs => $4))',
};

const TAKE: NamedStatement = {
  name: 'take_abandoned_key',
  text: `SELECT key, ${CALL}
         FROM waybill.take_abandoned_key($1, $2, make_interval(secs => $3)) WHERE key IS NOT NULL`,
};

/** The statements on keys whose request calls another system. */
@Injectable()
export class CallStore {
  /** For the transaction that claimed the key; from its COMMIT on the call may have happened. */
  start(tenantId: number, key: string, lease: Lease, { resource, providerRef }: StartedCall): BoundStatement {
    return bind(START, tenantId, { key, leaseToken: lease.token, resource, providerRef });
  }

  /** The call of a key that this transaction has taken over. */
  async find(tx: TenantTransaction, key: string, lease: Lease): Promise<UnfinishedCall> {
    const [call] = await tx.rows<UnfinishedCall>(FIND, [tx.context.tenantId, key, lease.token]);
    if (!call) throw new Error('A key that was just taken over is gone');
    return call;
  }

  /** Ends a lease early. Without effect when it isn't the newest one. */
  async putBack(tx: TenantTransaction, key: string, lease: Lease, waitSeconds: number): Promise<void> {
    await tx.rows(PUT_BACK, [tx.context.tenantId, key, lease.token, waitSeconds]);
  }

  /** Takes over the key that has been without a worker for longest; null when there is none. */
  async takeAbandoned(tx: TenantTransaction, lease: Lease): Promise<TakenCall | null> {
    const [call] = await tx.rows<TakenCall>(TAKE, [tx.context.tenantId, lease.token, lease.seconds]);
    return call ?? null;
  }
}
