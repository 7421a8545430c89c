import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';
import {
  atKillPoint,
  contextOf,
  runInTransaction,
  TransactionRunner,
  type WriteTransaction,
} from '../database/index.js';
import { idempotentOptions, type IdempotentOptions } from './idempotent-options.js';
import { AnsweredKeys } from './answered-keys.js';
import { claimOf, type Given, type KeyedRequest, send } from './keyed-request.js';
import { actingUnder } from './operation-key.js';
import { type Claimed, findReplay, type KeyClaim, KeyStore, readClaim, type Replay } from './key-store.js';
import { ProblemKeeper } from './problem-keeper.js';
import { answerOf, keptHeaders, resourceOf, restoreHeaders } from './stored-answer.js';

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
    await atKillPoint('claim.before');
    try {
      const replay = this.answered.has(tenantId, claim.key) ? await this.askForAnswer(request, claim) : null;
      const given = replay ?? (await this.run(exchange));
      if (given.kind !== 'unkept') this.answered.note(tenantId, claim.key);
      return send(reply, given);
    } catch (error) {
      const kept = await this.problems.answer(request, reply, claim, error);
      this.answered.note(tenantId, claim.key);
      return kept;
    }
  }

  private async askForAnswer(request: KeyedRequest, claim: KeyClaim): Promise<Replay | null> {
    return findReplay(await this.transactions.runAndRollBack(this.keys.claim(contextOf(request), claim)));
  }

  private run(exchange: Exchange): Promise<Given> {
    const { request, reply, claim, options } = exchange;
    const context = actingUnder(contextOf(request), claim.key);
    const before = { status: reply.statusCode, headers: keptHeaders(reply) };
    return this.transactions.runClaiming(context, this.keys.claim(context, claim), (tx, opened) => {
      // What an attempt that was rolled back left on the reply is no part of this one's answer.
      reply.code(before.status);
      restoreHeaders(reply, before.headers);
      const claimed = claimedBy(opened);
      return options.besideClaim ? this.handleBeside(claimed, exchange, tx) : this.handleAfter(claimed, exchange, tx);
    });
  }

  private async handleAfter(claimed: Promise<Claimed>, exchange: Exchange, tx: WriteTransaction): Promise<Given> {
    const claim = await claimed;
    return claim.kind === 'replay' ? undone(tx, claim) : this.handle(exchange, tx);
  }

  private async handleBeside(claimed: Promise<Claimed>, exchange: Exchange, tx: WriteTransaction): Promise<Given> {
    // Where the key is not this request's, PostgreSQL let the handler do nothing: what it came to is of no interest.
    const [claim, handled] = await Promise.allSettled([claimed, this.handle(exchange, tx)]);
    if (claim.status === 'rejected') throw claim.reason;
    if (claim.value.kind === 'replay') return undone(tx, claim.value);
    if (handled.status === 'rejected') throw handled.reason;
    return handled.value;
  }

  private async handle({ request, reply, options, claim, next }: Exchange, tx: WriteTransaction): Promise<Given> {
    request.tx = tx;
    const result = await lastValueFrom(next.handle());
    await atKillPoint('write.after');
    const answer = answerOf(reply, result);
    if (answer.status < 200 || answer.status > 299) return undone(tx, { kind: 'unkept', answer });
    const kept = options.kept ? answerOf(reply, options.kept(result as never)) : answer;
    tx.runAtCommit(this.keys.complete(tx.context.tenantId, claim, kept, resourceOf(options, result)));
    return { kind: 'first', answer };
  }
}

function undone(tx: WriteTransaction, given: Given): Given {
  tx.rollBackAtEnd();
  return given;
}

async function claimedBy(opened: Promise<readonly object[]>): Promise<Claimed> {
  const claimed = readClaim(await opened);
  await atKillPoint('claim.after');
  return claimed;
}
