import type { Stripe } from 'stripe';
import { ownerOf, type ProviderEvent, type ProviderFact } from './payment-provider.js';
import { fromStripeAmount } from './stripe-money.js';

/** What a Stripe event says, once its signature is known to be right. */
export function eventOf(event: Stripe.Event): ProviderEvent {
  const { id, type } = event;
  const object = event.data.object as { metadata?: Record<string, string> | null };
  return { id, type, ...ownerOf(object.metadata), fact: factOf(event) };
}

function factOf(event: Stripe.Event): ProviderFact | null {
  switch (event.type) {
    case 'payment_intent.amount_capturable_updated':
      return intentFact('authorized', event.data.object, event.data.object.amount_capturable);
    case 'payment_intent.payment_failed':
      return intentFact('declined', event.data.object, null);
    case 'payment_intent.succeeded':
      return intentFact('captured', event.data.object, event.data.object.amount_received);
    case 'payment_intent.canceled':
      return intentFact('voided', event.data.object, null);
    case 'refund.created':
    case 'refund.updated':
    case 'refund.failed':
    case 'charge.refund.updated':
      return refundFact(event.data.object);
    default:
      return null;
  }
}

function intentFact(
  fact: 'authorized' | 'declined' | 'captured' | 'voided',
  intent: Stripe.PaymentIntent,
  amount: number | null,
): ProviderFact {
  return {
    subject: 'payment',
    fact,
    reference: intent.id,
    amount: amount === null ? null : fromStripeAmount(amount, intent.currency),
    code: intent.last_payment_error?.decline_code ?? intent.last_payment_error?.code ?? intent.cancellation_reason,
  };
}

/** A refund that is pending has left the merchant's account; should a bank refuse it, another event says so. */
function refundFact(refund: Stripe.Refund): ProviderFact | null {
  const amount = fromStripeAmount(refund.amount, refund.currency);
  const reference = refund.id;
  switch (refund.status) {
    case 'succeeded':
    case 'pending':
      return { subject: 'refund', fact: 'succeeded', reference, amount, code: null };
    case 'failed':
    case 'canceled':
      return { subject: 'refund', fact: 'failed', reference, amount, code: refund.failure_reason ?? refund.status };
    default:
      return null;
  }
}
