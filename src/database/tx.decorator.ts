import {
  applyDecorators,
  createParamDecorator,
  type ExecutionContext,
  SetMetadata,
  UseInterceptors,
} from '@nestjs/common';
import { type ContextualRequest, isReading } from './context.js';
import { TenantTransaction } from './tenant-transaction.js';
import { TransactionInterceptor } from './transaction.interceptor.js';

const USES_TRANSACTION = Symbol('uses transaction');
const OPENS_TRANSACTION = 'waybill:opens-transaction';

const txParameter = createParamDecorator((_data: unknown, context: ExecutionContext): TenantTransaction => {
  const request = context.switchToHttp().getRequest<ContextualRequest>();
  const tx = request.tx ?? (isReading(request.method) ? request.beginReading?.() : undefined);
  if (tx instanceof TenantTransaction) return tx;
  throw new Error(`${context.getClass().name}.${context.getHandler().name} has @Tx(), but nothing opened one`);
});

/**
 * The request's transaction as a handler's parameter. Where the route only reads (GET), it begins with the handler's first
 * statement; elsewhere `@Idempotent()` or `@InTransaction()` opens it.
 */
export function Tx(): ParameterDecorator {
  return (target, property, index) => {
    if (property !== undefined) Reflect.defineMetadata(USES_TRANSACTION, true, target, property);
    txParameter()(target, property, index);
  };
}

/** For a decorator whose own interceptor opens the transaction. */
export function OpensTransaction(): MethodDecorator {
  return SetMetadata(OPENS_TRANSACTION, true);
}

/** A transaction around a handler that writes without an idempotency key; the answer leaves after COMMIT. */
export function InTransaction(): MethodDecorator {
  return applyDecorators(OpensTransaction(), UseInterceptors(TransactionInterceptor));
}

/** Whether a decorator opens a handler's transaction. */
export function opensTransaction(handler: object): boolean {
  return Reflect.hasMetadata(OPENS_TRANSACTION, handler);
}

/** Whether a method of a controller's prototype has a parameter with `@Tx()`. */
export function hasTransaction(prototype: object, method: string): boolean {
  return Reflect.getMetadata(USES_TRANSACTION, prototype, method) === true;
}
