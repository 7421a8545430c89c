import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { AuditEvent, EventBody } from '../../audit/index.js';
import { RawJson } from '../../http/index.js';
import type { OrderDetails, OrderStatusChange } from '../order.entity.js';
import { AddressBody, CustomerBody } from './order-body.dto.js';

const minorUnits = (example: number, description?: string) => ({ type: 'integer' as const, example, description });

export class OrderLineDto {
  @ApiProperty({ type: 'integer', example: 1 })
  lineNo!: number;
  @ApiProperty({ example: 'TEA-1' })
  sku!: string;
  @ApiProperty({ example: 'Green tea' })
  name!: string;
  @ApiProperty({ type: 'integer', example: 2 })
  quantity!: number;
  @ApiProperty(minorUnits(1299))
  unitPrice!: number;
  @ApiProperty(minorUnits(0))
  discount!: number;
  @ApiProperty({ type: 'integer', example: 190000 })
  taxRatePpm!: number;
  @ApiProperty(minorUnits(494, '(quantity × unitPrice − discount) × rate, rounded half up.'))
  tax!: number;
  @ApiProperty(minorUnits(3092, 'quantity × unitPrice − discount + tax'))
  total!: number;
  @ApiProperty({ type: 'integer', example: 0 })
  shippedQuantity!: number;
}

export class OrderCustomerDto extends CustomerBody {
  @ApiPropertyOptional({ enum: [true], description: 'Set when the personal data of this version was erased.' })
  erased?: true;
}

/** An order; amounts in minor units of its currency, times in UTC. */
export class OrderDto {
  @ApiProperty({ format: 'uuid', example: '01935c1e-7b3a-7c1d-9f00-000000000001' })
  id!: string;
  @ApiProperty({ example: '7K3M-9QXT', description: 'Short enough to read out loud.' })
  number!: string;
  @ApiProperty({ example: 'web' })
  channel!: string;
  @ApiProperty({ type: 'string', example: 'web-10001', nullable: true })
  externalRef!: string | null;
  @ApiProperty({ example: 'pending' })
  status!: string;
  @ApiProperty({ type: 'integer', example: 1, description: 'Counts every change; the ETag.' })
  version!: number;
  @ApiProperty({ example: 'EUR' })
  currency!: string;
  @ApiProperty(minorUnits(2598))
  subtotal!: number;
  @ApiProperty(minorUnits(0))
  discount!: number;
  @ApiProperty(minorUnits(494))
  tax!: number;
  @ApiProperty(minorUnits(490))
  shipping!: number;
  @ApiProperty(minorUnits(3582, 'subtotal − discount + tax + shipping'))
  total!: number;
  @ApiProperty({ type: OrderCustomerDto })
  customer!: OrderCustomerDto | RawJson;
  @ApiProperty({ type: AddressBody, nullable: true })
  shippingAddress!: Record<string, string> | RawJson | null;
  @ApiProperty({ type: AddressBody, nullable: true })
  billingAddress!: Record<string, string> | RawJson | null;
  @ApiProperty({ type: [OrderLineDto] })
  lines!: OrderLineDto[] | RawJson;
  @ApiProperty({ type: 'object', additionalProperties: true, example: { campaign: 'spring' } })
  metadata!: Record<string, unknown>;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:30.123456Z' })
  placedAt!: string;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:30.123456Z' })
  updatedAt!: string;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$', description: 'Hash of the audit event that made this version.' })
  eventHash!: string;

  static of(order: OrderDetails): OrderDto {
    const { contacts } = order;
    return {
      id: order.id,
      number: order.number,
      channel: order.channel,
      externalRef: order.externalRef,
      status: order.status,
      version: order.version,
      currency: order.currency,
      subtotal: order.subtotal,
      discount: order.discount,
      tax: order.tax,
      shipping: order.shipping,
      total: order.total,
      customer: customerOf(order.customerRef, contacts.customer),
      shippingAddress: contacts.shippingAddress,
      billingAddress: contacts.billingAddress,
      lines: order.lines,
      metadata: order.metadata,
      placedAt: order.placedAt,
      updatedAt: order.updatedAt,
      eventHash: order.eventHash,
    };
  }
}

function customerOf(ref: string, contact: RawJson | null): OrderDto['customer'] {
  // An order never is without this group, even if it says nothing.
  return contact ? contact.withMembers({ ref }) : { ref, erased: true };
}

export class OrderListDto {
  @ApiProperty({ type: [OrderDto] })
  data!: OrderDto[];
  @ApiProperty({ type: 'string', nullable: true, description: 'Cursor of the next page; null on the last one.' })
  next!: string | null;
  @ApiPropertyOptional({ type: 'integer', description: 'Orders on all pages; only with count=exact.' })
  count?: number;
}

export class BlockDto {
  @ApiProperty({ example: 'role-required' })
  code!: string;
  @ApiProperty({ example: 'It takes one of the roles operator, admin.' })
  detail!: string;
}

export class PossibleTransitionDto {
  @ApiProperty({ example: 'confirmed' })
  to!: string;
  @ApiProperty({ example: true, description: 'Whether this caller may do it now.' })
  allowed!: boolean;
  @ApiProperty({ example: false })
  requiresReason!: boolean;
  @ApiProperty({ example: ['operator', 'admin'] })
  roles!: string[];
  @ApiProperty({ type: [BlockDto], description: 'What stands in the way; empty when allowed.' })
  blockedBy!: BlockDto[];
}

export class PossibleTransitionsDto {
  @ApiProperty({ example: 'pending' })
  state!: string;
  @ApiProperty({ description: 'Nothing leads out of this state.', example: false })
  final!: boolean;
  @ApiPropertyOptional({ description: 'Set when the workflow no longer has this state.' })
  warning?: string;
  @ApiProperty({ type: [PossibleTransitionDto] })
  transitions!: PossibleTransitionDto[];
}

export class StatusChangeDto {
  @ApiProperty({ type: 'integer', example: 2 })
  seq!: number;
  @ApiProperty({ type: 'string', nullable: true, example: 'pending' })
  from!: string | null;
  @ApiProperty({ example: 'confirmed' })
  to!: string;
  @ApiProperty({ format: 'uuid', description: 'The user who did it.' })
  changedBy!: string;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:30.123456Z' })
  changedAt!: string;
  @ApiProperty({ type: 'string', nullable: true })
  reason!: string | null;
  @ApiProperty({ type: 'string', nullable: true })
  requestId!: string | null;

  static of({
    seq,
    fromStatus,
    toStatus,
    changedBy,
    changedAt,
    reason,
    requestId,
  }: OrderStatusChange): StatusChangeDto {
    return Object.assign(new StatusChangeDto(), {
      seq,
      from: fromStatus,
      to: toStatus,
      changedBy,
      changedAt,
      reason,
      requestId,
    });
  }
}

export class StatusHistoryDto {
  @ApiProperty({ type: [StatusChangeDto] })
  data!: StatusChangeDto[];
}

export class OrderVersionDto {
  @ApiProperty({ type: 'integer', example: 2 })
  version!: number;
  @ApiProperty({ example: 'order.confirmed' })
  type!: string;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:30.123456Z' })
  at!: string;
  @ApiProperty({ format: 'uuid', description: 'The user who made it.' })
  by!: string;
  @ApiProperty({ type: 'string', nullable: true })
  reason!: string | null;
  @ApiProperty({ type: 'string', nullable: true })
  requestId!: string | null;
  @ApiProperty({
    type: 'object',
    additionalProperties: { type: 'object', properties: { old: {}, new: {} } },
    example: { status: { old: 'pending', new: 'confirmed' } },
    description: 'Field to old and new value. Contacts show as digests. Empty in the first version.',
  })
  changes!: Record<string, { old: unknown; new: unknown }>;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$' })
  eventHash!: string;

  static of(event: AuditEvent): OrderVersionDto {
    const { reason, requestId, changes } = JSON.parse(event.body) as EventBody<unknown>;
    return Object.assign(new OrderVersionDto(), {
      version: event.version,
      type: event.type,
      at: event.occurredAt,
      by: event.actor,
      reason,
      requestId,
      changes: changes ?? {},
      eventHash: event.eventHash,
    });
  }
}

export class OrderVersionListDto {
  @ApiProperty({ type: [OrderVersionDto] })
  data!: OrderVersionDto[];
  @ApiProperty({ type: 'string', nullable: true })
  next!: string | null;
}
