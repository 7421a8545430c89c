import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  Optional,
} from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { isKeptUnderKey, PROBLEM_TYPE_BASE, toProblem } from '../common/index.js';
import {
  contextOf,
  type ContextualRequest,
  reach,
  type TenantTransaction,
  TransactionRunner,
} from '../database/index.js';
import { requestFingerprint } from './fingerprint.js';
import { parseIdempotencyKey } from './idempotency-key.js';
import { IdempotencyKeyInvalid, IdempotencyKeyMissing } from './idempotency.errors.js';
import { idempotentOptions, type IdempotentOptions, requiresKey } from './idempotent.decorator.js';
import { type ClaimRow, type KeyClaim, KeyStore, readClaim, type Replay } from './key-store.js';
import {
  answerOf,
  answerOfProblem,
  applyAnswer,
  keptHeaders,
  resourceOf,
  restoreHeaders,
  type StoredAnswer,
} from './stored-answer.js';

type KeyedRequest = FastifyRequest & ContextualRequest;

/** One request on its way through. */
interface Exchange {
  request: KeyedRequest;
  reply: FastifyReply;
  options: IdempotentOptions;
  claim: KeyClaim;
  next: CallHandler;
}

/**
 * Handlers with `@Idempotent()` whose effects are all in this database: claim, effect and answer are one transaction,
 * and the answer leaves after its COMMIT. Nothing is kept in the process, so any process can serve the retry.
 */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly keys: KeyStore,
    @Optional() @Inject(PROBLEM_TYPE_BASE) private readonly typeBase?: string,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const options = idempotentOptions(context.getHandler());
    if (!options) return next.handle();
    const request = context.switchToHttp().getRequest<KeyedRequest>();
    const reply = context.switchToHttp().getResponse<FastifyReply>();
    const header = request.headers['idempotency-key'];
    if (header === undefined) {
      if (requiresKey(request.method)) throw new IdempotencyKeyMissing();
      return next.handle();
    }
    const key = parseIdempotencyKey(String(header));
    if (key === null) throw new IdempotencyKeyInvalid();
    const claim = { key, hash: fingerprintOf(request) };
    return from(this.answer({ request, reply, options, claim, next }));
  }

  private async answer(exchange: Exchange): Promise<Buffer | undefined> {
    const { request, reply, claim } = exchange;
    const context = contextOf(request);
    const before = { status: reply.statusCode, headers: keptHeaders(reply) };
    await reach('claim.before');
    try {
      const given = await this.transactions.run(
        context,
        'write',
        async (tx, [row]) => {
          const replay = readClaim(row as ClaimRow | undefined);
          await reach('claim.after');
          if (replay) return replay;
          // What an attempt that was rolled back left on the reply is no part of this one's answer.
          reply.code(before.status);
          restoreHeaders(reply, before.headers);
          return this.runHandler(exchange, tx);
        },
        this.keys.claim(context, claim),
      );
      return send(reply, given);
    } catch (error) {
      if (error instanceof UnkeptAnswer) return send(reply, error.answer);
      if (!isKeptUnderKey(error)) throw error;
      return this.keepProblem(exchange, error);
    }
  }

  private async runHandler({ request, reply, options, claim, next }: Exchange, tx: TenantTransaction) {
    request.tx = tx;
    const result = await lastValueFrom(next.handle());
    await reach('write.after');
    const answer = answerOf(reply, result);
    if (answer.status < 200 || answer.status > 299) throw new UnkeptAnswer(answer);
    tx.runAtCommit(this.keys.complete(tx.context.tenantId, claim.key, answer, resourceOf(options, result)));
    return answer;
  }

  /**
   * The handler's transaction was rolled back, key included; the problem is stored in one of its own. When another
   * request took the key in between, what that one found is the answer.
   */
  private async keepProblem({ request, reply, claim }: Exchange, error: unknown): Promise<Buffer | undefined> {
    const context = contextOf(request);
    const place = { instance: pathOf(request.url), requestId: request.id, typeBase: this.typeBase };
    const problem = toProblem(error, place);
    const given = await this.transactions.run(
      context,
      'write',
      async (tx, [row]) => {
        const replay = readClaim(row as ClaimRow | undefined);
        if (replay) return replay;
        const answer = answerOfProblem(problem);
        tx.runAtCommit(this.keys.complete(context.tenantId, claim.key, answer, null));
        return answer;
      },
      this.keys.claim(context, claim),
    );
    if (!isReplay(given)) reply.headers(problem.headers);
    return send(reply, given);
  }
}

/** An answer that no key keeps, given without an error. Thrown, so that what was done for it is rolled back. */
class UnkeptAnswer extends Error {
  override readonly name = 'UnkeptAnswer';

  constructor(readonly answer: StoredAnswer) {
    super(`An idempotent handler answered ${answer.status}`);
  }
}

/** Only after COMMIT: until then an error may still have to be answered instead. */
function send(reply: FastifyReply, given: StoredAnswer | Replay): Buffer | undefined {
  if (isReplay(given)) {
    reply.headers({
      'idempotency-replayed': 'true',
      'idempotency-created-at': given.createdAt,
      'cache-control': 'no-store',
    });
  }
  return applyAnswer(reply, given);
}

function isReplay(given: StoredAnswer | Replay): given is Replay {
  return 'createdAt' in given;
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

function pathOf(url: string): string {
  return url.replace(/[?#].*$/s, '');
}
