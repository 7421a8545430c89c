import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { from, lastValueFrom, type Observable } from 'rxjs';
import { type ContextualRequest, contextOf } from './context.js';
import { TransactionRunner } from './transaction-runner.js';
import { usesTransaction } from './tx.decorator.js';

const READING = new Set(['GET', 'HEAD']);

/**
 * Opens the transaction of every handler with `@Tx()`; the answer leaves after COMMIT. An interceptor outside of this one
 * may have opened it already, as the one for idempotency keys does.
 */
@Injectable()
export class TransactionInterceptor implements NestInterceptor {
  constructor(private readonly transactions: TransactionRunner) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const request = context.switchToHttp().getRequest<ContextualRequest>();
    if (!usesTransaction(context) || request.tx) return next.handle();
    const mode = READING.has(request.method) ? 'read' : 'write';
    return from(
      this.transactions.run(contextOf(request), mode, (tx) => {
        request.tx = tx;
        return lastValueFrom(next.handle());
      }),
    );
  }
}
