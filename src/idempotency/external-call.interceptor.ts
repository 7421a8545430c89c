import { type CallHandler, type ExecutionContext, Inject, Injectable, type NestInterceptor } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { contextOf, atKillPoint, type TenantTransaction, TransactionRunner } from '../database/index.js';
import { CallRunner, type HeldKey } from './call-runner.js';
import { CallStore } from './call-store.js';
import type { ExternalWork, ResumedWork } from './external-work.js';
import { IdempotencyKeyMissing } from './idempotency.errors.js';
import { claimOf, type KeyedRequest, placeOf, send } from './keyed-request.js';
import { type KeyClaim, KeyStore, readClaim, type Replay } from './key-store.js';
import { type Lease, newLease } from './lease.js';
import { actingUnder } from './operation-key.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import { ProblemKeeper } from './problem-keeper.js';
import { WorkResumers } from './work-resumers.js';

/** A call that may be made, since what it is about is committed. */
interface Begun {
  kind: 'begun';
  held: HeldKey;
  work: ResumedWork;
}

/** One request on its way through. */
interface Exchange {
  request: KeyedRequest;
  claim: KeyClaim;
  lease: Lease;
  next: CallHandler;
}

/**
 * Handlers with `@Idempotent({ external: true })`: the first transaction claims the key under a lease and prepares, the
 * call runs with no transaction open, the second one settles and stores the answer if the lease is still the newest.
 */
@Injectable()
export class ExternalCallInterceptor implements NestInterceptor {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly keys: KeyStore,
    private readonly calls: CallStore,
    private readonly resumers: WorkResumers,
    private readonly runner: CallRunner,
    private readonly problems: ProblemKeeper,
    @Inject(IDEMPOTENCY_POLICY) private readonly policy: IdempotencyPolicy,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const request = context.switchToHttp().getRequest<KeyedRequest>();
    const reply = context.switchToHttp().getResponse<FastifyReply>();
    const claim = claimOf(request);
    // Whatever the method: without a key nobody could tell a repetition of the call from a new one.
    if (!claim) throw new IdempotencyKeyMissing();
    return from(this.answer({ request, claim, lease: newLease(this.policy.leaseSeconds), next }, reply));
  }

  private async answer(exchange: Exchange, reply: FastifyReply): Promise<Buffer | undefined> {
    const { request, claim } = exchange;
    await atKillPoint('claim.before');
    let begun: Begun | Replay;
    try {
      begun = await this.begin(exchange);
    } catch (error) {
      return this.problems.answer(request, reply, claim, error);
    }
    if (begun.kind === 'replay') return send(reply, begun);
    const place = placeOf(request, this.problems.typeBase);
    const context = actingUnder(contextOf(request), claim.key);
    const answer = await this.runner.carryOut(context, begun.held, begun.work, place);
    return send(reply, { kind: 'first', answer });
  }

  /** The first transaction: a new call, or one that was begun and has no worker any more. */
  private begin(exchange: Exchange): Promise<Begun | Replay> {
    const { request, claim, lease } = exchange;
    const context = actingUnder(contextOf(request), claim.key);
    return this.transactions.runClaiming(
      context,
      this.keys.claim(context, claim, lease),
      async (tx, opened): Promise<Begun | Replay> => {
        const claimed = readClaim(await opened);
        await atKillPoint('claim.after');
        switch (claimed.kind) {
          case 'claimed':
            return this.prepare(exchange, tx);
          case 'taken-over':
            return this.takeOver(exchange, tx);
          case 'replay':
            tx.rollBackAtEnd();
            return claimed;
          default:
            return claimed satisfies never;
        }
      },
    );
  }

  private async prepare({ request, claim, lease, next }: Exchange, tx: TenantTransaction): Promise<Begun> {
    request.tx = tx;
    const work = workOf(await lastValueFrom(next.handle()));
    const call = await work.prepare(tx, claim.key);
    await atKillPoint('write.after');
    tx.runAtCommit(this.calls.start(tx.context.tenantId, claim.key, lease, call));
    return { kind: 'begun', work, held: { key: claim.key, lease, resource: call.resource, attempt: 1 } };
  }

  private async takeOver({ claim, lease }: Exchange, tx: TenantTransaction): Promise<Begun> {
    const call = await this.calls.find(tx, claim.key, lease);
    const work = await this.resumers.resume(tx, call);
    return { kind: 'begun', work, held: { key: claim.key, lease, resource: call.resource, attempt: call.attempt } };
  }
}

function workOf(result: unknown): ExternalWork {
  if (typeof result === 'object' && result !== null && 'prepare' in result && 'call' in result && 'settle' in result) {
    return result as ExternalWork;
  }
  throw new TypeError('A handler with @Idempotent({ external: true }) must return { prepare, call, settle }');
}
