import { Inject, Injectable } from '@nestjs/common';
import type { BoundStatement, NamedStatement, TransactionContext } from '../database/index.js';
import { AnswerErased, IdempotencyKeyInFlight, IdempotencyKeyReused } from './idempotency.errors.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import type { Lease } from './lease.js';
import type { StoredAnswer } from './stored-answer.js';

/** A key as one request uses it. */
export interface KeyClaim {
  key: string;
  /** SHA-256 of the request. */
  hash: Buffer;
}

/** What the database says to a claim; see `waybill.claim_key`. */
export interface ClaimRow {
  outcome: 'claimed' | 'taken_over' | 'replay' | 'reused' | 'in_flight' | 'erased';
  retryAfter: number | null;
  claimedAt: string | null;
  status: number | null;
  headers: Record<string, string> | null;
  body: Buffer | null;
}

/** An answer that was given before. */
export interface Replay extends StoredAnswer {
  createdAt: string;
}

const CLAIM: NamedStatement = {
  name: 'claim_key',
  text: `SELECT outcome, retry_after AS "retryAfter", claimed_at AS "claimedAt",
                answer_status AS status, answer_headers AS headers, answer_body AS body
         FROM waybill.claim_key($1, $2, $3, $4, $5, $6, $7, $8)`,
};

const COMPLETE: NamedStatement = {
  name: 'complete_key',
  text: `SELECT waybill.complete_key($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
};

/** The statements on idempotency keys. They run where the transaction's other statements do. */
@Injectable()
export class KeyStore {
  constructor(@Inject(IDEMPOTENCY_POLICY) private readonly policy: IdempotencyPolicy) {}

  /**
   * Opens a transaction: sets its context and claims the key for it. Its row is for `readClaim`.
   *
   * @param lease for work that goes on after COMMIT
   */
  claim(
    { tenantId, userId, roles, requestId }: TransactionContext,
    { key, hash }: KeyClaim,
    lease?: Lease,
  ): BoundStatement {
    const held = lease ? [lease.token, `${lease.seconds} seconds`] : [null, null];
    return { ...CLAIM, values: [tenantId, userId, roles, requestId, key, hash, ...held] };
  }

  /** Stores the answer under a key that this transaction has claimed. Fails, and the transaction with it, where it has not. */
  complete(tenantId: number, { key, hash }: KeyClaim, answer: StoredAnswer, resource: string | null): BoundStatement {
    return this.store([tenantId, key, hash, null], answer, resource);
  }

  /** The same for a key that was claimed earlier, with a lease. Fails where another worker has it by now. */
  completeLeased(
    tenantId: number,
    key: string,
    lease: Lease,
    answer: StoredAnswer,
    resource: string | null,
  ): BoundStatement {
    return this.store([tenantId, key, null, lease.token], answer, resource);
  }

  private store(held: unknown[], answer: StoredAnswer, resource: string | null): BoundStatement {
    const { ttlSeconds } = this.policy;
    const ttl = ttlSeconds === null ? null : `${ttlSeconds} seconds`;
    return { ...COMPLETE, values: [...held, answer.status, answer.headers, answer.body, resource, ttl] };
  }
}

/**
 * What a claim's row means.
 *
 * @returns the answer to replay, or null when the key is this request's to use
 * @throws DomainError when it is neither
 */
export function readClaim(row: ClaimRow | undefined): Replay | null {
  if (!row) throw new Error('claim_key returned no row');
  switch (row.outcome) {
    case 'claimed':
    case 'taken_over':
      return null;
    case 'replay':
      return {
        status: row.status ?? 0,
        headers: row.headers ?? {},
        body: row.body ?? Buffer.alloc(0),
        createdAt: row.claimedAt ?? '',
      };
    case 'reused':
      throw new IdempotencyKeyReused();
    case 'in_flight':
      throw new IdempotencyKeyInFlight(row.retryAfter ?? undefined);
    case 'erased':
      throw new AnswerErased();
    default:
      throw new Error(`claim_key answered ${String(row.outcome satisfies never)}`);
  }
}
