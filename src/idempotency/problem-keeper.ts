import { Inject, Injectable, Optional } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { isKeptUnderKey, toProblem } from '../problems/index.js';
import { PROBLEM_TYPE_BASE } from '../http/index.js';
import { contextOf, TransactionRunner } from '../database/index.js';
import { type Given, type KeyedRequest, placeOf, send } from './keyed-request.js';
import { type KeyClaim, KeyStore, readClaim } from './key-store.js';
import { answerOfProblem } from './stored-answer.js';

/** Stores refusals that a key keeps, after everything that the request did was rolled back. */
@Injectable()
export class ProblemKeeper {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly keys: KeyStore,
    @Optional() @Inject(PROBLEM_TYPE_BASE) readonly typeBase?: string,
  ) {}

  /**
   * The handler's transaction was rolled back, key included; the problem is stored in one of its own. When another
   * request took the key in between, what that one found is the answer.
   *
   * @throws the error itself when keys don't keep it
   */
  async answer(
    request: KeyedRequest,
    reply: FastifyReply,
    claim: KeyClaim,
    error: unknown,
  ): Promise<Buffer | undefined> {
    if (!isKeptUnderKey(error)) throw error;
    const context = contextOf(request);
    const problem = toProblem(error, placeOf(request, this.typeBase));
    const given = await this.transactions.runClaiming(
      context,
      this.keys.claim(context, claim),
      async (tx, opened): Promise<Given> => {
        const claimed = readClaim(await opened);
        if (claimed.kind === 'replay') {
          tx.rollBackAtEnd();
          return claimed;
        }
        const answer = answerOfProblem(problem);
        tx.runAtCommit(this.keys.complete(context.tenantId, claim, answer, null));
        return { kind: 'first', answer };
      },
    );
    if (given.kind !== 'replay') reply.headers(problem.headers);
    return send(reply, given);
  }
}
