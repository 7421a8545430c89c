import { idempotencyKeyReused } from '../idempotency/index.js';
import { paymentInProgress } from '../orders/index.js';
import {
  defineProblem,
  DomainError,
  invalidParameter,
  notFound,
  textMember,
  validationFailed,
} from '../problems/index.js';
import { CollisionError, postgresError, refusalDetail, violates } from '../database/index.js';
import { guardRefused, illegalTransition, TransitionRoleRequired } from '../workflow/index.js';

export const paymentDeclined = defineProblem({
  code: 'payment-declined',
  status: 402,
  texts: {
    title: 'Payment declined',
    explanation: 'The payment provider declined the payment. The decline is final for this attempt.',
    whatToDo: 'Ask the customer for another means of payment and start a new attempt with a new idempotency key.',
  },
  kept: true,
  members: { declineCode: textMember() },
  example: { declineCode: 'insufficient_funds' },
});

export const refundExceedsCaptured = defineProblem({
  code: 'refund-exceeds-captured',
  status: 409,
  texts: {
    title: 'Refund exceeds what was captured',
    explanation: 'All refunds together would be more than was captured. Nothing was refunded.',
    whatToDo: 'Read the payment for what is left and refund no more than that.',
  },
  kept: true,
});

export class PaymentNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such payment.');
  }
}

export class OrderToPayNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such order.');
  }
}

export class PaymentDeclined extends DomainError<typeof paymentDeclined> {
  constructor(declineCode: string) {
    super(paymentDeclined, `The payment provider refused it: ${declineCode}.`, { declineCode });
  }
}

export class PaymentStillLive extends DomainError<typeof paymentInProgress> {
  constructor({ paymentId, status, conflicts = 0 }: { paymentId: string; status: string; conflicts?: number }) {
    super(
      paymentInProgress,
      conflicts > 0
        ? `The provider of payment ${paymentId} says what can't be so here: a person has to resolve it.`
        : `Payment ${paymentId} is ${status}. Wait until it has ended, or end it first.`,
    );
  }
}

export class IllegalPaymentStep extends DomainError<typeof illegalTransition> {
  constructor(members: { from: string; to: string; allowed: string[] }) {
    super(illegalTransition, `The payment is ${members.from} and cannot become ${members.to}.`, members);
  }
}

export class OrderCanceled extends DomainError<typeof guardRefused> {
  constructor() {
    const detail = 'The order is canceled, so there is nothing to pay.';
    super(guardRefused, detail, { guards: [{ code: 'order-canceled', detail }] });
  }
}

export class AmountOutOfBounds extends DomainError<typeof validationFailed> {
  constructor(max: number) {
    const detail = max < 1 ? 'there is nothing to pay' : `amount must be an integer from 1 to ${max}, in minor units`;
    super(validationFailed, 'The body has one fault.', { errors: [{ pointer: '/amount', detail }] });
  }
}

export class RefundExceedsCaptured extends DomainError<typeof refundExceedsCaptured> {
  constructor(left?: { left: number; leftTax: number }) {
    const rest = left ? ` ${left.left} minor units are left, ${left.leftTax} of them tax.` : '';
    super(refundExceedsCaptured, `All refunds together would be more than was captured.${rest}`);
  }
}

/** The key's answer is forgotten here, but the provider may remember the key and would answer for the request of old. */
export class KeyUsedForOlderPayment extends DomainError<typeof idempotencyKeyReused> {
  constructor() {
    super(idempotencyKeyReused, 'This key was used for a payment of this order before. Make a new one.');
  }
}

export class WebhookNotAccepted extends DomainError<typeof invalidParameter> {
  constructor(detail: string) {
    super(invalidParameter, detail, { errors: [{ parameter: 'signature', detail }] });
  }
}

export class ProviderNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such payment provider here.');
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
