import { DomainError } from '../problems/index.js';
import { CollisionError, postgresError, refusalDetail, violates } from '../database/index.js';
import { TransitionRoleRequired } from '../workflow/index.js';

export class PaymentNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such payment.');
  }
}

export class OrderToPayNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such order.');
  }
}

export class PaymentDeclined extends DomainError<'payment-declined'> {
  constructor(declineCode: string) {
    super('payment-declined', `The payment provider refused it: ${declineCode}.`, { declineCode });
  }
}

export class PaymentStillLive extends DomainError<'payment-in-progress'> {
  constructor({ paymentId, status }: { paymentId: string; status: string }) {
    super('payment-in-progress', `Payment ${paymentId} is ${status}. Wait until it has ended, or end it first.`);
  }
}

export class IllegalPaymentStep extends DomainError<'illegal-transition'> {
  constructor(members: { from: string; to: string; allowed: string[] }) {
    super('illegal-transition', `The payment is ${members.from} and cannot become ${members.to}.`, members);
  }
}

export class OrderCanceled extends DomainError<'guard-refused'> {
  constructor() {
    const detail = 'The order is canceled, so there is nothing to pay.';
    super('guard-refused', detail, { guards: [{ code: 'order-canceled', detail }] });
  }
}

export class AmountOutOfBounds extends DomainError<'validation-failed'> {
  constructor(max: number) {
    const detail = max < 1 ? 'there is nothing to pay' : `amount must be an integer from 1 to ${max}, in minor units`;
    super('validation-failed', 'The body has one fault.', { errors: [{ pointer: '/amount', detail }] });
  }
}

export class RefundExceedsCaptured extends DomainError<'refund-exceeds-captured'> {
  constructor(left?: { left: number; leftTax: number }) {
    const rest = left ? ` ${left.left} minor units are left, ${left.leftTax} of them tax.` : '';
    super('refund-exceeds-captured', `All refunds together would be more than was captured.${rest}`);
  }
}

/** The key's answer is forgotten here, but the provider may remember the key and would answer for the request of old. */
export class KeyUsedForOlderPayment extends DomainError<'idempotency-key-reused'> {
  constructor() {
    super('idempotency-key-reused', 'This key was used for a payment of this order before. Make a new one.');
  }
}

export class WebhookNotAccepted extends DomainError<'invalid-parameter'> {
  constructor(detail: string) {
    super('invalid-parameter', detail, { errors: [{ parameter: 'signature', detail }] });
  }
}

export class ProviderNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such payment provider here.');
  }
}

/** The domain error that a refusal of the database stands for; anything else comes back as it is. */
export function paymentError(error: unknown): unknown {
  const refusal = postgresError(error);
  switch (refusal?.code) {
    case 'WB010':
      return new IllegalPaymentStep(refusalDetail(refusal));
    case 'WB013':
      return new TransitionRoleRequired(refusalDetail<{ roles: string[] }>(refusal).roles);
    case 'WB030':
      return new PaymentStillLive(refusalDetail(refusal));
    case 'WB031':
      return new OrderCanceled();
    case 'WB032':
      return new AmountOutOfBounds(refusalDetail<{ max: number }>(refusal).max);
    case 'WB033':
      return new RefundExceedsCaptured(refusalDetail(refusal));
    case '23505':
      if (violates(refusal, 'payment_attempts_provider_key_key')) return new KeyUsedForOlderPayment();
      // The lock on the order makes this all but impossible; a new attempt finds the other payment and says so.
      return violates(refusal, 'payments_live_key') ? new CollisionError(refusal.message, { cause: error }) : error;
    default:
      return error;
  }
}
