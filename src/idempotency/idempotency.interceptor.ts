import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { contextOf, reach, runInTransaction, type TenantTransaction, TransactionRunner } from '../database/index.js';
import { idempotentOptions, type IdempotentOptions } from './idempotent-options.js';
import { AnsweredKeys } from './answered-keys.js';
import { claimOf, type KeyedRequest, send } from './keyed-request.js';
import { type ClaimRow, type KeyClaim, KeyStore, readClaim, type Replay } from './key-store.js';
import { ProblemKeeper } from './problem-keeper.js';
import { answerOf, keptHeaders, resourceOf, restoreHeaders, type StoredAnswer } from './stored-answer.js';

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
 * and the answer leaves after its COMMIT. No answer is kept in the process, so any process can serve the retry.
 */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly keys: KeyStore,
    private readonly answered: AnsweredKeys,
    private readonly problems: ProblemKeeper,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const request = context.switchToHttp().getRequest<KeyedRequest>();
    const reply = context.switchToHttp().getResponse<FastifyReply>();
    const claim = claimOf(request);
    if (!claim) return runInTransaction(this.transactions, request, next);
    const options = idempotentOptions(context.getHandler()) ?? {};
    return from(this.answer({ request, reply, options, claim, next }));
  }

  private async answer(exchange: Exchange): Promise<Buffer | undefined> {
    const { request, reply, claim } = exchange;
    const { tenantId } = contextOf(request);
    await reach('claim.before');
    try {
      const known = this.answered.has(tenantId, claim.key) ? await this.askForAnswer(request, claim) : null;
      const given = known ?? (await this.run(exchange));
      this.answered.note(tenantId, claim.key);
      return send(reply, given);
    } catch (error) {
      if (error instanceof UnkeptAnswer) return send(reply, error.answer);
      const kept = await this.problems.answer(request, reply, claim, error);
      this.answered.note(tenantId, claim.key);
      return kept;
    }
  }

  /** @returns null for a key that has no answer to this request, whatever else there is to say about it */
  private async askForAnswer(request: KeyedRequest, claim: KeyClaim): Promise<Replay | null> {
    const [row] = await this.transactions.peek(this.keys.claim(contextOf(request), claim));
    const claimed = row as ClaimRow | undefined;
    return claimed?.outcome === 'replay' ? readClaim(claimed) : null;
  }

  private async run(exchange: Exchange): Promise<StoredAnswer | Replay> {
    const { request, reply, claim } = exchange;
    const context = contextOf(request);
    const before = { status: reply.statusCode, headers: keptHeaders(reply) };
    const work = (tx: TenantTransaction, opened: Promise<readonly object[]>) => {
      // What an attempt that was rolled back left on the reply is no part of this one's answer.
      reply.code(before.status);
      restoreHeaders(reply, before.headers);
      return exchange.options.early
        ? this.runBesideClaim(exchange, tx, opened)
        : this.runAfterClaim(exchange, tx, opened);
    };
    try {
      return await this.transactions.runEarly(context, work, this.keys.claim(context, claim));
    } catch (error) {
      if (error instanceof EarlierAnswer) return error.answer;
      throw error;
    }
  }

  private async runAfterClaim(exchange: Exchange, tx: TenantTransaction, opened: Promise<readonly object[]>) {
    const replay = await claimedBy(opened);
    return replay ?? this.runHandler(exchange, tx);
  }

  /** Whatever the handler came to where the key is not this request's is of no interest: PostgreSQL let it do nothing. */
  private async runBesideClaim(exchange: Exchange, tx: TenantTransaction, opened: Promise<readonly object[]>) {
    const handling = this.runHandler(exchange, tx);
    const handled = handling.then(nothing, nothing);
    try {
      const replay = await claimedBy(opened);
      // The handler's first statement has failed, so this transaction can only be rolled back.
      if (replay) throw new EarlierAnswer(replay);
    } catch (error) {
      await handled;
      throw error;
    }
    return handling;
  }

  private async runHandler({ request, reply, options, claim, next }: Exchange, tx: TenantTransaction) {
    request.tx = tx;
    const result = await lastValueFrom(next.handle());
    await reach('write.after');
    const answer = answerOf(reply, result);
    if (answer.status < 200 || answer.status > 299) throw new UnkeptAnswer(answer);
    tx.runAtCommit(this.keys.complete(tx.context.tenantId, claim, answer, resourceOf(options, result)));
    return answer;
  }
}

function nothing(): void {}

/** Thrown, so that what was begun beside the claim is rolled back. */
class EarlierAnswer extends Error {
  override readonly name = 'EarlierAnswer';

  constructor(readonly answer: Replay) {
    super('This key has been answered before');
  }
}

/** The answer to replay, or null when the key is this request's to use. */
async function claimedBy(opened: Promise<readonly object[]>): Promise<Replay | null> {
  const [row] = await opened;
  const replay = readClaim(row as ClaimRow | undefined);
  await reach('claim.after');
  return replay;
}

/** An answer that no key keeps, given without an error. Thrown, so that what was done for it is rolled back. */
class UnkeptAnswer extends Error {
  override readonly name = 'UnkeptAnswer';

  constructor(readonly answer: StoredAnswer) {
    super(`An idempotent handler answered ${answer.status}`);
  }
}
