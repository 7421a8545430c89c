import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { type ContextualRequest, contextOf } from './context.js';
import { TransactionRunner } from './transaction-runner.js';
import { needsTransaction } from './tx.decorator.js';

const READING = new Set(['GET', 'HEAD']);

/** Opens the transaction of every handler with `@Tx()`; the answer leaves after COMMIT. */
@Injectable()
export class TransactionInterceptor implements NestInterceptor {
  constructor(private readonly transactions: TransactionRunner) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (!needsTransaction(context)) return next.handle();
    return runInTransaction(this.transactions, context.switchToHttp().getRequest<ContextualRequest>(), next);
  }
}

/** Runs a handler in a transaction, which `@Tx()` then gives it. */
export function runInTransaction(
  transactions: TransactionRunner,
  request: ContextualRequest,
  next: CallHandler,
): Observable<unknown> {
  const mode = READING.has(request.method) ? 'read' : 'write';
  return from(
    transactions.run(contextOf(request), mode, (tx) => {
      request.tx = tx;
      return lastValueFrom(next.handle());
    }),
  );
}
