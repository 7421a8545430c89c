import { randomUUID } from 'node:crypto';
import type { FakeStripe, Intent } from './fake-stripe.js';

/** An event as Stripe sends it. */
export interface StripeEvent {
  id: string;
  object: 'event';
  type: string;
  data: { object: unknown };
}

export function stripeEvent(type: string, object: unknown, id = `evt_${randomUUID()}`): StripeEvent {
  return { id, object: 'event', type, data: { object } };
}

/** What people, banks and customers do at Stripe without us, and the events that tell of it. Nothing but payment intents bears our metadata. */
export class StripeDashboard {
  private disputes = 0;

  constructor(private readonly stripe: FakeStripe) {}

  /** Another card is tried after a decline, or a hold is made by hand. */
  hold(intentId: string | null): StripeEvent {
    const intent = this.intent(intentId);
    Object.assign(intent, { status: 'requires_capture', amount_capturable: intent.amount });
    return stripeEvent('payment_intent.amount_capturable_updated', { ...intent });
  }

  capture(intentId: string | null, amount: number): StripeEvent {
    const intent = this.intent(intentId);
    Object.assign(intent, { status: 'succeeded', amount_capturable: 0, amount_received: amount });
    return stripeEvent('payment_intent.succeeded', { ...intent });
  }

  refund(intentId: string | null, amount: number): StripeEvent {
    const { id, currency } = this.intent(intentId);
    const refund = {
      id: `re_by_hand_${this.stripe.refunds.length + 1}`,
      object: 'refund' as const,
      amount,
      currency,
      payment_intent: id,
      status: 'succeeded',
      reason: 'requested_by_customer',
      metadata: {},
    };
    this.stripe.refunds.push(refund);
    return stripeEvent('refund.created', refund);
  }

  /** A bank takes the money back for its customer, and gives it back again when the dispute is won. */
  dispute(intentId: string | null, amount: number): { withdrawn: StripeEvent; reinstated: StripeEvent } {
    const { id: intent, currency } = this.intent(intentId);
    this.disputes += 1;
    const dispute = {
      id: `dp_${this.disputes}`,
      object: 'dispute',
      amount,
      currency,
      payment_intent: intent,
      reason: 'fraudulent',
      metadata: {},
    };
    return {
      withdrawn: stripeEvent('charge.dispute.funds_withdrawn', { ...dispute, status: 'needs_response' }),
      reinstated: stripeEvent('charge.dispute.funds_reinstated', { ...dispute, status: 'won' }),
    };
  }

  private intent(id: string | null): Intent {
    const intent = this.stripe.intents.get(id ?? '');
    if (!intent) throw new Error(`Stripe has no payment intent ${id}`);
    return intent;
  }
}
