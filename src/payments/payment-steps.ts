import type { Step } from '../workflow/index.js';
import type { PaymentAttempt, PaymentDetails } from './payment.entity.js';

/** The steps that an attempt's last change made, given what the payment has become by it. */
export function stepsOf({ refundId }: Pick<PaymentAttempt, 'refundId'>, { status, refunds }: PaymentDetails): Step[] {
  if (refundId === null) return [{ machine: 'payment', to: status }];
  const refund = refunds.find(({ id }) => id === refundId);
  if (!refund) return [];
  const isLast = refund.status === 'succeeded' && status === 'refunded';
  return [{ machine: 'refund', to: refund.status }, ...(isLast ? [{ machine: 'payment', to: status }] : [])];
}
