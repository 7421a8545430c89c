import { ApiProperty } from '@nestjs/swagger';
import type { PaymentDetails, RefundDetails } from '../payment.entity.js';

const minorUnits = (example: number, description?: string) => ({ type: 'integer' as const, example, description });
const TIME = { format: 'date-time', example: '2026-11-30T08:15:30.123456Z' };
const HASH = { pattern: '^[0-9a-f]{64}$', description: 'Hash of the audit event that made this version.' };

const PAYMENT_STATES =
  '`processing`, `authorized`, `declined`, `capturing`, `captured`, `voiding`, `voided`, `refunded`, or ' +
  '`needs_reconciliation` when nobody can tell what the provider did: a person has to look.';
const REFUND_STATES = '`processing`, `succeeded`, `failed` or `needs_reconciliation`.';

/** A refund; amounts in minor units of the payment's currency, times in UTC. */
export class RefundDto {
  @ApiProperty({ format: 'uuid', example: '01935c1e-7b3a-7c1d-9f00-000000000003' })
  id!: string;
  @ApiProperty({ format: 'uuid', example: '01935c1e-7b3a-7c1d-9f00-000000000002' })
  paymentId!: string;
  @ApiProperty({ example: 'succeeded', description: REFUND_STATES })
  status!: string;
  @ApiProperty({ type: 'integer', example: 2, description: 'Counts every change; the ETag.' })
  version!: number;
  @ApiProperty(minorUnits(1000))
  amount!: number;
  @ApiProperty(minorUnits(160, 'The tax in the amount.'))
  tax!: number;
  @ApiProperty({ type: 'string', nullable: true, example: 'one of two was broken' })
  reason!: string | null;
  @ApiProperty({
    enum: ['request', 'provider', 'dispute'],
    example: 'request',
    description:
      'Who gave it back: a request of yours, somebody at the provider without you, or a bank for a customer who disputes the payment.',
  })
  cause!: string;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: 're_3MtwBwLkdIwHu7ix',
    description: "The provider's name of it.",
  })
  providerRef!: string | null;
  @ApiProperty({ type: 'string', nullable: true, example: null, description: 'Why the provider refused it.' })
  declineCode!: string | null;
  @ApiProperty(TIME)
  createdAt!: string;
  @ApiProperty(TIME)
  updatedAt!: string;
  @ApiProperty(HASH)
  eventHash!: string;

  static of(refund: RefundDetails): RefundDto {
    return Object.assign(new RefundDto(), {
      id: refund.id,
      paymentId: refund.paymentId,
      status: refund.status,
      version: refund.version,
      amount: refund.amount,
      tax: refund.tax,
      reason: refund.reason,
      cause: refund.cause,
      providerRef: refund.providerRef,
      declineCode: refund.declineCode,
      createdAt: refund.createdAt,
      updatedAt: refund.updatedAt,
      eventHash: refund.eventHash,
    });
  }
}

/** What the provider says of a payment and what can't be so here. */
export class PaymentConflictDto {
  @ApiProperty({ example: 'stripe' })
  provider!: string;
  @ApiProperty({ example: 'evt_1NG8Du2eZvKYlo2CUI79vXWy', description: "The provider's name of the event." })
  event!: string;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: 'payment',
    description: '`payment` or `refund`; null where it can not be read.',
  })
  subject!: string | null;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: 'captured',
    description: 'What happened; null where it can not be read.',
  })
  fact!: string | null;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: 'pi_3MtwBwLkdIwHu7ix',
    description: "The provider's name of what it is about.",
  })
  reference!: string | null;
  @ApiProperty({
    type: 'integer',
    nullable: true,
    example: 4000,
    description: 'In minor units; null where the event has none.',
  })
  amount!: number | null;
  @ApiProperty({ example: 'It would break the rule payments_captured_within_authorized.' })
  problem!: string;
  @ApiProperty(TIME)
  noticedAt!: string;
}

/** A payment with its refunds; amounts in minor units of its currency, times in UTC. */
export class PaymentDto {
  @ApiProperty({ format: 'uuid', example: '01935c1e-7b3a-7c1d-9f00-000000000002' })
  id!: string;
  @ApiProperty({ format: 'uuid', example: '01935c1e-7b3a-7c1d-9f00-000000000001' })
  orderId!: string;
  @ApiProperty({ example: 'simulated' })
  provider!: string;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: 'pi_3MtwBwLkdIwHu7ix',
    description: "The provider's name of it.",
  })
  providerRef!: string | null;
  @ApiProperty({ example: 'captured', description: PAYMENT_STATES })
  status!: string;
  @ApiProperty({ type: 'integer', example: 4, description: 'Counts every change; the ETag.' })
  version!: number;
  @ApiProperty({ example: 'EUR' })
  currency!: string;
  @ApiProperty(minorUnits(3582, 'What was asked for.'))
  amount!: number;
  @ApiProperty(minorUnits(494, 'The tax in the amount.'))
  tax!: number;
  @ApiProperty(minorUnits(3582, 'What the provider held.'))
  authorized!: number;
  @ApiProperty(minorUnits(3582, 'What was taken.'))
  captured!: number;
  @ApiProperty(minorUnits(494, 'The tax in what was taken.'))
  capturedTax!: number;
  @ApiProperty(minorUnits(0, 'Promised to refunds that are under way.'))
  refunding!: number;
  @ApiProperty(minorUnits(1000, 'What was given back.'))
  refunded!: number;
  @ApiProperty(minorUnits(138, 'The tax in what was given back.'))
  refundedTax!: number;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: null,
    description: 'Why the provider refused the last step that it refused.',
  })
  declineCode!: string | null;
  @ApiProperty({ type: [RefundDto], description: 'Oldest first.' })
  refunds!: RefundDto[];
  @ApiProperty({
    type: [PaymentConflictDto],
    example: [],
    description:
      "What the provider says and what can't be so here, oldest first; empty when all is well. A person has to look; until then the order " +
      'is neither canceled nor paid again.',
  })
  conflicts!: PaymentConflictDto[];
  @ApiProperty(TIME)
  createdAt!: string;
  @ApiProperty(TIME)
  updatedAt!: string;
  @ApiProperty(HASH)
  eventHash!: string;

  static of(payment: PaymentDetails): PaymentDto {
    return Object.assign(new PaymentDto(), {
      id: payment.id,
      orderId: payment.orderId,
      provider: payment.provider,
      providerRef: payment.providerRef,
      status: payment.status,
      version: payment.version,
      currency: payment.currency,
      amount: payment.amount,
      tax: payment.tax,
      authorized: payment.authorized,
      captured: payment.captured,
      capturedTax: payment.capturedTax,
      refunding: payment.refunding,
      refunded: payment.refunded,
      refundedTax: payment.refundedTax,
      declineCode: payment.declineCode,
      refunds: payment.refunds.map((refund) => RefundDto.of(refund)),
      conflicts: payment.conflicts,
      createdAt: payment.createdAt,
      updatedAt: payment.updatedAt,
      eventHash: payment.eventHash,
    });
  }
}
