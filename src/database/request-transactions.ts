import { Injectable, type OnModuleInit, RequestMethod } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { controllerMethods, type ProvidedHooks } from '../http/index.js';
import { type ContextualRequest, contextOf, isReading } from './context.js';
import { ReadTransaction } from './read-transaction.js';
import { TransactionRunner } from './transaction-runner.js';
import { hasTransaction, opensTransaction } from './tx.decorator.js';

type ReadingRequest = FastifyRequest & ContextualRequest;

/**
 * The transactions of requests that only read. They need no interceptor: they begin with the handler's first statement and
 * end when the answer is ready, whatever it is.
 */
@Injectable()
export class RequestTransactions implements OnModuleInit {
  readonly hooks: Pick<ProvidedHooks, 'endReading' | 'endBrokenReading'> = {
    endReading(request: ReadingRequest, _reply, _payload, done) {
      endReading(request);
      done();
    },
    endBrokenReading(request: ReadingRequest, _reply, done) {
      endReading(request);
      done();
    },
  };

  constructor(
    private readonly adapter: HttpAdapterHost,
    private readonly transactions: TransactionRunner,
    private readonly discovery: DiscoveryService,
  ) {}

  onModuleInit(): void {
    this.refuseUnopened();
    const { transactions } = this;
    const fastify = this.adapter.httpAdapter.getInstance<FastifyInstance>();
    fastify.decorateRequest('tx', null);
    fastify.decorateRequest('beginReading', function (this: FastifyRequest) {
      const request = this as ReadingRequest;
      return (request.tx = transactions.beginReading(contextOf(request)));
    });
  }

  /** @throws Error for a handler that writes with `@Tx()` where nothing would open a transaction */
  private refuseUnopened(): void {
    for (const { controller, name, handler } of controllerMethods(this.discovery)) {
      if (!hasTransaction(controller.prototype as object, name) || opensTransaction(handler)) continue;
      const method = RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod];
      if (method === undefined || isReading(method)) continue;
      throw new Error(
        `${controller.name}.${name} has @Tx(), but nothing opens a transaction for it. Add @Idempotent(), so that it can ` +
          'be retried, or @InTransaction() where a retry needs no key.',
      );
    }
  }
}

function endReading({ tx }: ReadingRequest): void {
  if (tx instanceof ReadTransaction) tx.end();
}
