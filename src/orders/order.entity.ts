import { Column, Entity, PrimaryColumn, ViewColumn, ViewEntity } from 'typeorm';
import type { RawJson } from '../http/index.js';

/** A postal address or a person, as a client gave it. */
export type Contact = Record<string, string>;

/** A line as the database shows it; amounts in minor units. */
export interface OrderLine {
  lineNo: number;
  sku: string;
  name: string;
  quantity: number;
  unitPrice: number;
  discount: number;
  taxRatePpm: number;
  tax: number;
  total: number;
  shippedQuantity: number;
}

export type ContactField = 'customer' | 'shippingAddress' | 'billingAddress';

/** A row of the view `waybill.order_details`. Times are RFC 3339 text in UTC; lines and contacts are texts of JSON. */
@ViewEntity({ schema: 'waybill', name: 'order_details', synchronize: false })
export class OrderRow {
  @ViewColumn()
  id!: string;
  @ViewColumn()
  number!: string;
  @ViewColumn()
  channel!: string;
  @ViewColumn({ name: 'external_ref' })
  externalRef!: string | null;
  @ViewColumn({ name: 'customer_ref' })
  customerRef!: string;
  @ViewColumn()
  status!: string;
  @ViewColumn()
  version!: number;
  @ViewColumn()
  currency!: string;
  @ViewColumn()
  subtotal!: number;
  @ViewColumn()
  discount!: number;
  @ViewColumn()
  tax!: number;
  @ViewColumn()
  shipping!: number;
  @ViewColumn()
  total!: number;
  @ViewColumn()
  metadata!: Record<string, unknown>;
  @ViewColumn({ name: 'placed_at' })
  placedAt!: string;
  @ViewColumn({ name: 'updated_at' })
  updatedAt!: string;
  @ViewColumn()
  lines!: string;
  @ViewColumn()
  customer!: string | null;
  @ViewColumn({ name: 'shipping_address' })
  shippingAddress!: string | null;
  @ViewColumn({ name: 'billing_address' })
  billingAddress!: string | null;
  @ViewColumn({ name: 'event_hash' })
  eventHash!: string;
}

/** An order as it is read and answered: lines and contacts are JSON that an answer holds as it is. */
export type OrderDetails = Omit<OrderRow, 'lines' | ContactField> & { lines: RawJson; contacts: ContactTexts };

/** The field groups of an order. One that was never given or was taken away is null, and so is one that was erased. */
export type ContactTexts = Record<ContactField, RawJson | null>;

@Entity({ schema: 'waybill', name: 'order_status_history', synchronize: false })
export class OrderStatusChange {
  @PrimaryColumn({ type: 'bigint', name: 'tenant_id' })
  tenantId!: number;
  @PrimaryColumn({ type: 'uuid', name: 'order_id' })
  orderId!: string;
  @PrimaryColumn({ type: 'int' })
  seq!: number;
  @Column({ type: 'text', name: 'from_status', nullable: true })
  fromStatus!: string | null;
  @Column({ type: 'text', name: 'to_status' })
  toStatus!: string;
  @Column({ type: 'uuid', name: 'changed_by' })
  changedBy!: string;
  // As text: TypeORM makes a Date of a timestamptz, without the microseconds.
  @Column({ type: 'text', name: 'changed_at' })
  changedAt!: string;
  @Column({ type: 'text', nullable: true })
  reason!: string | null;
  @Column({ type: 'text', name: 'request_id', nullable: true })
  requestId!: string | null;
}
