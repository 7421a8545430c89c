import { DomainError, type ProblemFault } from '../problems/index.js';
import { CollisionError, postgresError, refusalDetail, violates } from '../database/index.js';
import { ReasonRequired, TransitionRoleRequired } from '../workflow/index.js';

export class OrderNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such order.');
  }
}

export class VersionNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'The order had no such version.');
  }
}

export class IllegalTransition extends DomainError<'illegal-transition'> {
  constructor(members: { from: string; to: string; allowed: string[] }) {
    const ways =
      members.allowed.length > 0 ? `it can go to ${members.allowed.join(' or ')}` : 'nothing leads out of there';
    super('illegal-transition', `The order is ${members.from} and cannot become ${members.to}: ${ways}.`, members);
  }
}

export class AlreadyInState extends DomainError<'already-in-state'> {
  constructor(state: string) {
    super('already-in-state', `The order is already ${state}.`, { state });
  }
}

export class StaleVersion extends DomainError<'stale-version'> {
  constructor(current: number) {
    super('stale-version', `The order is at version ${current} by now. Read it again and decide anew.`, { current });
  }
}

export class PreconditionRequired extends DomainError<'precondition-required'> {
  constructor() {
    super('precondition-required', 'Send the ETag of the version that you read as If-Match.', {});
  }
}

export class NotEditable extends DomainError<'not-editable'> {
  constructor(state: string, fields: readonly string[]) {
    super('not-editable', `Once an order is ${state}, ${fields.join(', ')} cannot change.`, { state, fields });
  }
}

export class ExternalRefTaken extends DomainError<'external-ref-taken'> {
  constructor(orderId: string) {
    super('external-ref-taken', 'The channel has an order with this externalRef already.', { orderId });
  }
}

export class TotalMismatch extends DomainError<'total-mismatch'> {
  constructor(expected: number, actual: number) {
    super('total-mismatch', `The total is ${actual} minor units, not ${expected}. Nothing was stored.`, {
      expected,
      actual,
    });
  }
}

export class OrderPaymentInProgress extends DomainError<'payment-in-progress'> {
  constructor({ paymentId, status }: { paymentId: string; status: string }) {
    const payment = `/v1/payments/${paymentId}`;
    super('payment-in-progress', `The order has a live payment, which is ${status}. ${wayOut(payment, status)}`);
  }
}

function wayOut(payment: string, status: string): string {
  switch (status) {
    case 'authorized':
      return `POST ${payment}/voids lets go of the money; then try again.`;
    case 'captured':
      return `POST ${payment}/refunds gives the money back; then try again.`;
    case 'needs_reconciliation':
      return `Nobody knows yet what the provider did. GET ${payment} shows when it is cleared up.`;
    default:
      return `GET ${payment} shows when that has ended; then void or refund it, and try again.`;
  }
}

export class InvalidOrder extends DomainError<'validation-failed'> {
  constructor(errors: ProblemFault[]) {
    super('validation-failed', `The body has ${errors.length === 1 ? 'one fault' : `${errors.length} faults`}.`, {
      errors,
    });
  }
}

/** The domain error that a refusal of the database stands for; anything else comes back as it is. */
export function orderError(error: unknown): unknown {
  const refusal = postgresError(error);
  switch (refusal?.code) {
    case 'WB010':
      return new IllegalTransition(refusalDetail(refusal));
    case 'WB011':
      return new AlreadyInState(refusalDetail<{ state: string }>(refusal).state);
    case 'WB012':
      return new StaleVersion(refusalDetail<{ current: number }>(refusal).current);
    case 'WB013':
      return new TransitionRoleRequired(refusalDetail<{ roles: string[] }>(refusal).roles);
    case 'WB014':
      return new ReasonRequired();
    case 'WB017':
      return new ExternalRefTaken(refusalDetail<{ orderId: string }>(refusal).orderId);
    case 'WB030':
      return new OrderPaymentInProgress(refusalDetail(refusal));
    case '23505': {
      // Another transaction took the reference or number a moment ago: a new attempt sees it, or draws another number.
      const isCollision = violates(refusal, 'orders_number_key') || violates(refusal, 'orders_external_ref_key');
      return isCollision ? new CollisionError(refusal.message, { cause: error }) : error;
    }
    default:
      return error;
  }
}
