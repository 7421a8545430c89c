import type { ProviderEvent } from './payment-provider.js';
import { membersOf, type RawFact, readEvent } from './provider-event.js';
import { fromStripeAmount } from './stripe-money.js';

/**
 * What a Stripe event says, once its signature is known to be right. Nothing is taken for granted but that it is JSON: Stripe's types say
 * what its events have now.
 *
 * @param digest SHA-256 of the body, in hexadecimal
 */
export function eventOf(event: unknown, digest: string): ProviderEvent {
  const { id, type, data } = membersOf(event);
  const object = membersOf(membersOf(data).object);
  return readEvent({ id, type, metadata: object.metadata, fact: factOf(type, object) }, digest);
}

type StripeObject = Readonly<Record<string, unknown>>;

function factOf(type: unknown, object: StripeObject): RawFact | null {
  switch (type) {
    case 'payment_intent.amount_capturable_updated':
      return intentFact('authorized', object, object.amount_capturable);
    case 'payment_intent.payment_failed':
      return intentFact('declined', object, null);
    case 'payment_intent.succeeded':
      return intentFact('captured', object, object.amount_received);
    case 'payment_intent.canceled':
      return intentFact('voided', object, null);
    case 'refund.created':
    case 'refund.updated':
    case 'refund.failed':
    case 'charge.refund.updated':
      return refundFact(object);
    case 'charge.dispute.funds_withdrawn':
      return disputeFact('succeeded', object, object.reason);
    case 'charge.dispute.funds_reinstated':
      return disputeFact('failed', object, 'dispute_won');
    default:
      return null;
  }
}

function intentFact(fact: string, intent: StripeObject, amount: unknown): RawFact {
  const { decline_code: declined, code } = membersOf(intent.last_payment_error);
  return {
    subject: 'payment',
    fact,
    reference: intent.id,
    amount: minorUnits(amount, intent.currency),
    code: declined ?? code ?? intent.cancellation_reason,
  };
}

/** A refund that is pending has left the merchant's account; should a bank refuse it, another event says so. */
function refundFact(refund: StripeObject): RawFact | null {
  const known = { subject: 'refund', reference: refund.id, payment: idOf(refund.payment_intent), cause: 'provider' };
  const amount = minorUnits(refund.amount, refund.currency);
  switch (refund.status) {
    case 'succeeded':
    case 'pending':
      return { ...known, fact: 'succeeded', amount, code: refund.reason };
    case 'failed':
    case 'canceled':
      return { ...known, fact: 'failed', amount, code: refund.failure_reason ?? refund.status };
    case 'requires_action':
      return null;
    default:
      return { ...known, fact: refund.status, amount, code: null };
  }
}

/** What a bank takes back for its customer is a refund that nobody here asked for; when it is given back again, one that failed. */
function disputeFact(fact: string, dispute: StripeObject, code: unknown): RawFact {
  const amount = minorUnits(dispute.amount, dispute.currency);
  return {
    subject: 'refund',
    fact,
    reference: dispute.id,
    payment: idOf(dispute.payment_intent),
    amount,
    code,
    cause: 'dispute',
  };
}

/** Stripe may put an object in the place of its id. */
function idOf(reference: unknown): unknown {
  return typeof reference === 'object' ? membersOf(reference).id : reference;
}

/** Whatever is no amount stays as it is, for the reader of the event to say so. */
function minorUnits(amount: unknown, currency: unknown): unknown {
  return typeof amount === 'number' && typeof currency === 'string' ? fromStripeAmount(amount, currency) : amount;
}
