import { createParamDecorator, type ExecutionContext, SetMetadata } from '@nestjs/common';
import type { ContextualRequest } from './context.js';
import { TenantTransaction } from './tenant-transaction.js';

const USES_TRANSACTION = Symbol('uses transaction');
const OPENS_TRANSACTION = 'waybill:opens-transaction';

const txParameter = createParamDecorator((_data: unknown, context: ExecutionContext): TenantTransaction => {
  const { tx } = context.switchToHttp().getRequest<ContextualRequest>();
  if (tx instanceof TenantTransaction) return tx;
  throw new Error(`${context.getClass().name}.${context.getHandler().name} has @Tx(), but no interceptor opened one`);
});

/** The request's transaction as a handler's parameter. Its presence is what makes the service open one. */
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

/** Whether a transaction is still to be opened for a handler. */
export function needsTransaction(context: ExecutionContext): boolean {
  const handler = context.getHandler();
  return hasTransaction(context.getClass().prototype, handler.name) && !Reflect.hasMetadata(OPENS_TRANSACTION, handler);
}

/** Whether a method of a controller's prototype has a parameter with `@Tx()`. */
export function hasTransaction(prototype: object, method: string): boolean {
  return Reflect.getMetadata(USES_TRANSACTION, prototype, method) === true;
}
