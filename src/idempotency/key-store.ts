import { Inject, Injectable } from '@nestjs/common';
import { bind, type BoundStatement, command, type TransactionContext } from '../database/index.js';
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

/** See `waybill.claim_key`. */
interface ClaimRow {
  outcome: 'claimed' | 'taken_over' | 'replay' | 'reused' | 'in_flight' | 'erased';
  retryAfter: number | null;
  claimedAt: string | null;
  status: number | null;
  headers: Record<string, string> | null;
  body: Buffer | null;
}

/** An answer that was given before. */
export interface Replay {
  kind: 'replay';
  answer: StoredAnswer;
  /** When the first request with the key came. */
  createdAt: string;
}

/** What a request may do with its key. */
export type Claimed =
  | { kind: 'claimed' }
  /** Another worker had begun a call to another system under the key, and is gone. */
  | { kind: 'taken-over' }
  | Replay;

const CLAIM = command(
  'claim_key',
  `outcome, retry_after AS "retryAfter", claimed_at AS "claimedAt",
   answer_status AS status, answer_headers AS headers, answer_body AS body`,
  ['actor', 'roles', 'requestId', 'key', 'hash', 'leaseToken', 'lease', 'keyDigest'],
);

const COMPLETE = command('complete_key', 'complete_key', [
  'key',
  'hash',
  'leaseToken',
  'status',
  'headers',
  'body',
  'resource',
  'defaultTtl',
]);

/** The statements on idempotency keys. They run where the transaction's other statements do. */
@Injectable()
export class KeyStore {
  constructor(@Inject(IDEMPOTENCY_POLICY) private readonly policy: IdempotencyPolicy) {}

  /**
   * Opens a transaction: sets its context and claims the key for it. Its rows are for `readClaim`.
   *
   * @param lease for work that goes on after COMMIT
   */
  claim(
    { tenantId, userId, roles, requestId, operationKey }: TransactionContext,
    { key, hash }: KeyClaim,
    lease?: Lease,
  ): BoundStatement {
    const held = { leaseToken: lease?.token ?? null, lease: lease ? `${lease.seconds} seconds` : null };
    return bind(CLAIM, tenantId, {
      actor: userId,
      roles,
      requestId,
      key,
      hash,
      ...held,
      keyDigest: operationKey ?? null,
    });
  }

  /** Stores the answer under a key that this transaction has claimed. Fails, and the transaction with it, where it has not. */
  complete(tenantId: number, { key, hash }: KeyClaim, answer: StoredAnswer, resource: string | null): BoundStatement {
    return this.store(tenantId, { key, hash, leaseToken: null }, answer, resource);
  }

  /** The same for a key that was claimed earlier, with a lease. Fails where another worker has it by now. */
  completeLeased(
    tenantId: number,
    key: string,
    lease: Lease,
    answer: StoredAnswer,
    resource: string | null,
  ): BoundStatement {
    return this.store(tenantId, { key, hash: null, leaseToken: lease.token }, answer, resource);
  }

  private store(
    tenantId: number,
    held: { key: string; hash: Buffer | null; leaseToken: string | null },
    { status, headers, body }: StoredAnswer,
    resource: string | null,
  ): BoundStatement {
    const { ttlSeconds } = this.policy;
    const defaultTtl = ttlSeconds === null ? null : `${ttlSeconds} seconds`;
    return bind(COMPLETE, tenantId, { ...held, status, headers, body, resource, defaultTtl });
  }
}

/**
 * What the database answered to a claim.
 *
 * @throws DomainError when the key is another request's, or its answer was erased
 */
export function readClaim([row]: readonly object[]): Claimed {
  if (!row) throw new Error('claim_key returned no row');
  const claim = row as ClaimRow;
  switch (claim.outcome) {
    case 'claimed':
      return { kind: 'claimed' };
    case 'taken_over':
      return { kind: 'taken-over' };
    case 'replay':
      return replayOf(claim);
    case 'reused':
      throw new IdempotencyKeyReused();
    case 'in_flight':
      throw new IdempotencyKeyInFlight(claim.retryAfter ?? undefined);
    case 'erased':
      throw new AnswerErased();
    default:
      throw new Error(`claim_key answered ${String(claim.outcome satisfies never)}`);
  }
}

/** The answer in what the database answered to a claim; null where there is none, whatever else there is to say. */
export function findReplay([row]: readonly object[]): Replay | null {
  const claim = row as ClaimRow | undefined;
  return claim?.outcome === 'replay' ? replayOf(claim) : null;
}

function replayOf({ status, headers, body, claimedAt }: ClaimRow): Replay {
  const answer = { status: status ?? 0, headers: headers ?? {}, body: body ?? Buffer.alloc(0) };
  return { kind: 'replay', answer, createdAt: claimedAt ?? '' };
}
