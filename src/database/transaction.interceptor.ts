import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { type ContextualRequest, contextOf } from './context.js';
import { TransactionRunner } from './transaction-runner.js';

/** See `@InTransaction()`. */
@Injectable()
export class TransactionInterceptor implements NestInterceptor {
  constructor(private readonly transactions: TransactionRunner) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return runInTransaction(this.transactions, context.switchToHttp().getRequest<ContextualRequest>(), next);
  }
}

/** Runs a handler in a transaction, which `@Tx()` then gives it. */
export function runInTransaction(
  transactions: TransactionRunner,
  request: ContextualRequest,
  next: CallHandler,
): Observable<unknown> {
  return from(
    transactions.run(contextOf(request), 'write', (tx) => {
      request.tx = tx;
      return lastValueFrom(next.handle());
    }),
  );
}
