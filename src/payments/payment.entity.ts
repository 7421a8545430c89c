import { ViewColumn, ViewEntity } from 'typeorm';
import type { Operation } from './provider-key.js';

/** A refund as the database shows it; amounts in minor units. */
export interface RefundDetails {
  id: string;
  paymentId: string;
  providerRef: string | null;
  status: string;
  version: number;
  amount: number;
  tax: number;
  reason: string | null;
  cause: 'request' | 'provider' | 'dispute';
  declineCode: string | null;
  createdAt: string;
  updatedAt: string;
  eventHash: string;
}

/** What a provider says of a payment and what can't be so here; amounts in minor units. */
export interface PaymentConflict {
  provider: string;
  event: string;
  subject: string | null;
  fact: string | null;
  reference: string | null;
  amount: number | null;
  problem: string;
  noticedAt: string;
}

/** A payment with its refunds and open conflicts: the view `waybill.payment_details`. Times are RFC 3339 text in UTC. */
@ViewEntity({ schema: 'waybill', name: 'payment_details', synchronize: false })
export class PaymentDetails {
  @ViewColumn({ name: 'tenant_id' })
  tenantId!: number;
  @ViewColumn()
  id!: string;
  @ViewColumn({ name: 'order_id' })
  orderId!: string;
  @ViewColumn()
  provider!: string;
  @ViewColumn({ name: 'provider_ref' })
  providerRef!: string | null;
  @ViewColumn()
  status!: string;
  @ViewColumn()
  version!: number;
  @ViewColumn()
  currency!: string;
  @ViewColumn()
  amount!: number;
  @ViewColumn()
  tax!: number;
  @ViewColumn()
  authorized!: number;
  @ViewColumn()
  captured!: number;
  @ViewColumn({ name: 'captured_tax' })
  capturedTax!: number;
  @ViewColumn()
  refunding!: number;
  @ViewColumn({ name: 'refunding_tax' })
  refundingTax!: number;
  @ViewColumn()
  refunded!: number;
  @ViewColumn({ name: 'refunded_tax' })
  refundedTax!: number;
  @ViewColumn({ name: 'decline_code' })
  declineCode!: string | null;
  @ViewColumn({ name: 'created_at' })
  createdAt!: string;
  @ViewColumn({ name: 'updated_at' })
  updatedAt!: string;
  @ViewColumn()
  refunds!: RefundDetails[];
  @ViewColumn()
  conflicts!: PaymentConflict[];
  @ViewColumn({ name: 'event_hash' })
  eventHash!: string;
}

/** One thing that was asked of a provider, with what the request needs to be made again. */
export interface PaymentAttempt {
  id: string;
  paymentId: string;
  refundId: string | null;
  orderId: string;
  provider: string;
  /** The provider's name of the payment, once it has one. */
  paymentRef: string | null;
  operation: Operation;
  status: 'processing' | 'succeeded' | 'refused' | 'needs_reconciliation';
  providerKey: string;
  paymentMethod: string | null;
  amount: number;
  currency: string;
  declineCode: string | null;
}
