import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProblemContext } from '../problems/index.js';
import { contextOf, type ContextualRequest } from '../database/index.js';
import { requestFingerprint } from './fingerprint.js';
import { parseIdempotencyKey } from './idempotency-key.js';
import { IdempotencyKeyInvalid, IdempotencyKeyMissing } from './idempotency.errors.js';
import { requiresKey } from './idempotent-options.js';
import type { KeyClaim, Replay } from './key-store.js';
import { applyAnswer, type StoredAnswer } from './stored-answer.js';

export type KeyedRequest = FastifyRequest & ContextualRequest;

/**
 * The claim that a request makes; null for one that may come without a key, and does.
 *
 * @throws DomainError `idempotency-key-missing`, `idempotency-key-invalid`
 */
export function claimOf(request: KeyedRequest): KeyClaim | null {
  const header = request.headers['idempotency-key'];
  if (header === undefined) {
    if (requiresKey(request.method)) throw new IdempotencyKeyMissing();
    return null;
  }
  const key = parseIdempotencyKey(String(header));
  if (key === null) throw new IdempotencyKeyInvalid();
  return { key, hash: fingerprintOf(request) };
}

/** Where a request's problem occurs. */
export function placeOf(request: KeyedRequest, typeBase: string | undefined): ProblemContext {
  return { instance: request.url.replace(/[?#].*$/s, ''), requestId: request.id, typeBase };
}

/** What a request is answered with. */
export type Given =
  | { kind: 'first'; answer: StoredAnswer }
  /** One that no key keeps: what was done for it is rolled back. */
  | { kind: 'unkept'; answer: StoredAnswer }
  | Replay;

/** Only after COMMIT: until then an error may still have to be answered instead. */
export function send(reply: FastifyReply, given: Given): Buffer | undefined {
  if (given.kind === 'replay') {
    reply.headers({
      'idempotency-replayed': 'true',
      'idempotency-created-at': given.createdAt,
      'cache-control': 'no-store',
    });
  }
  return applyAnswer(reply, given.answer);
}

function fingerprintOf(request: KeyedRequest): Buffer {
  return requestFingerprint({
    method: request.method,
    url: request.url,
    principal: contextOf(request).userId ?? '',
    contentType: request.headers['content-type'],
    ifMatch: request.headers['if-match'],
    canonicalBody: request.canonicalBody(),
  });
}
