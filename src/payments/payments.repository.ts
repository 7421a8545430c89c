import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { NamedStatement, TenantTransaction } from '../database/index.js';
import type { TransitionChange } from '../workflow/index.js';
import { type PaymentAttempt, PaymentDetails } from './payment.entity.js';
import { paymentError } from './payments.errors.js';
import type { ProviderEvent, ProviderResult } from './providers/payment-provider.js';

export interface NewPayment {
  id: string;
  attemptId: string;
  orderId: string;
  provider: string;
  providerKey: string;
  paymentMethod: string;
  /** Null is the order's total. */
  amount: number | null;
}

export interface NewRefund {
  id: string;
  attemptId: string;
  providerKey: string;
  /** Null is all that is left. */
  amount: number | null;
  /** The tax in the amount; null is in proportion. */
  tax: number | null;
  reason: string | null;
}

/** What became of an event: `seen` came before, `unknown` means nothing to us and is kept all the same. */
export type EventOutcome = 'applied' | 'nothing-to-do' | 'unknown' | 'seen';

/** Every query on the tables of payments. Commands return null when there is no such order or payment. */
@Injectable()
export class PaymentsRepository {
  private readonly statements: Record<'payment' | 'capture' | 'void' | 'refund' | 'settle' | 'find', NamedStatement>;

  constructor(private readonly dataSource: DataSource) {
    const { columns } = dataSource.getMetadata(PaymentDetails);
    const list = columns.map((column) => `${column.databaseName} AS "${column.propertyName}"`).join(', ');
    const call = (name: string, parameters: number): NamedStatement => ({
      name,
      text: `SELECT ${list} FROM waybill.${name}(${Array.from({ length: parameters }, (_, i) => `$${i + 1}`).join(', ')})`,
    });
    this.statements = {
      payment: call('begin_payment', 8),
      capture: call('begin_capture', 5),
      void: call('begin_void', 4),
      refund: call('begin_refund', 8),
      settle: call('settle_payment_attempt', 6),
      find: {
        name: 'find_payment',
        text: `SELECT ${list} FROM waybill.payment_details WHERE tenant_id = $1 AND id = $2`,
      },
    };
  }

  beginPayment(tx: TenantTransaction, payment: NewPayment): Promise<PaymentDetails | null> {
    const { orderId, id, attemptId, provider, providerKey, paymentMethod, amount } = payment;
    return this.run(tx, 'payment', [orderId, id, attemptId, provider, providerKey, paymentMethod, amount]);
  }

  /** @param amount null is all that is held */
  beginCapture(tx: TenantTransaction, id: string, attemptId: string, providerKey: string, amount: number | null) {
    return this.run(tx, 'capture', [id, attemptId, providerKey, amount]);
  }

  beginVoid(tx: TenantTransaction, id: string, attemptId: string, providerKey: string) {
    return this.run(tx, 'void', [id, attemptId, providerKey]);
  }

  beginRefund(tx: TenantTransaction, paymentId: string, refund: NewRefund): Promise<PaymentDetails | null> {
    const { id, attemptId, providerKey, amount, tax, reason } = refund;
    return this.run(tx, 'refund', [paymentId, id, attemptId, providerKey, amount, tax, reason]);
  }

  /** Writes down how an attempt ended; null when nobody can tell. One that has ended stays as it is. */
  settle(tx: TenantTransaction, attemptId: string, result: ProviderResult | null): Promise<PaymentDetails | null> {
    return this.run(tx, 'settle', [attemptId, ...settlementOf(result)]);
  }

  find(tx: TenantTransaction, id: string): Promise<PaymentDetails | null> {
    return this.run(tx, 'find', [id]);
  }

  /** Reads a payment and keeps others from moving it until the transaction ends. */
  async lock(tx: TenantTransaction, id: string): Promise<PaymentDetails | null> {
    const orderId = await this.orderOf(tx, id);
    if (orderId === null) return null;
    await tx.rows(LOCK_ORDER, [tx.context.tenantId, orderId]);
    return this.find(tx, id);
  }

  /** The steps of a payment and its refunds that this transaction has made, in their order. */
  stepsMadeIn(tx: TenantTransaction, paymentId: string): Promise<TransitionChange[]> {
    return tx.rows<TransitionChange>(STEPS_MADE, [tx.context.tenantId, paymentId]);
  }

  /** The order that a payment is for, which never changes. */
  async orderOf(tx: TenantTransaction, id: string): Promise<string | null> {
    const [payment] = await tx.rows<{ orderId: string }>(ORDER_OF, [tx.context.tenantId, id]);
    return payment?.orderId ?? null;
  }

  async findAttempt(tx: TenantTransaction, id: string): Promise<PaymentAttempt | null> {
    const [attempt] = await tx.rows<PaymentAttempt>(FIND_ATTEMPT, [tx.context.tenantId, id]);
    return attempt ?? null;
  }

  async findAttemptByKey(tx: TenantTransaction, providerKey: string): Promise<PaymentAttempt | null> {
    const [attempt] = await tx.rows<PaymentAttempt>(FIND_ATTEMPT_BY_KEY, [tx.context.tenantId, providerKey]);
    return attempt ?? null;
  }

  /** Minor units that are held or taken for an order and not given back; 0 without a live payment. */
  async coverage(tx: TenantTransaction, orderId: string): Promise<Coverage> {
    const [coverage] = await tx.rows<Coverage>(COVERAGE, [tx.context.tenantId, orderId]);
    return coverage ?? { total: 0, authorized: 0, captured: 0 };
  }

  /** Keeps an event and applies its fact, once. */
  async keepEvent(
    tx: TenantTransaction,
    provider: string,
    event: ProviderEvent,
    digest: Buffer,
  ): Promise<EventOutcome> {
    const { id, type, key, fact } = event;
    const facts = [fact?.reference, fact?.subject, fact?.fact, fact?.amount, fact?.code].map((value) => value ?? null);
    const [row] = await tx.rows<{ outcome: EventOutcome }>(KEEP_EVENT, [
      tx.context.tenantId,
      provider,
      id,
      type,
      digest,
      key,
      ...facts,
    ]);
    return row?.outcome ?? 'unknown';
  }

  /** Keeps an event that names no tenant of ours. */
  async keepStrayEvent(provider: string, { id, type }: ProviderEvent, digest: Buffer): Promise<void> {
    await this.dataSource.query(
      `INSERT INTO payment_inbox.stray_events (provider, event, type, digest) VALUES ($1, $2, $3, $4)
       ON CONFLICT (provider, event) DO NOTHING`,
      [provider, id, type, digest],
    );
  }

  private async run(
    tx: TenantTransaction,
    statement: keyof PaymentsRepository['statements'],
    values: unknown[],
  ): Promise<PaymentDetails | null> {
    try {
      const [payment] = await tx.rows<PaymentDetails>(this.statements[statement], [tx.context.tenantId, ...values]);
      return payment ?? null;
    } catch (error) {
      throw paymentError(error);
    }
  }
}

/** What an order asks for, and how much of it is held or taken by its live payment. */
export interface Coverage {
  total: number;
  authorized: number;
  captured: number;
}

const ATTEMPT = `SELECT a.id, a.payment_id AS "paymentId", a.refund_id AS "refundId", p.order_id AS "orderId", p.provider,
  p.provider_ref AS "paymentRef", a.operation, a.status, a.provider_key AS "providerKey", a.payment_method AS "paymentMethod",
  a.amount, p.currency, a.decline_code AS "declineCode"
  FROM waybill.payment_attempts a JOIN waybill.payments p ON p.tenant_id = $1 AND p.id = a.payment_id`;

const FIND_ATTEMPT: NamedStatement = {
  name: 'find_payment_attempt',
  text: `${ATTEMPT} WHERE a.tenant_id = $1 AND a.id = $2`,
};

const FIND_ATTEMPT_BY_KEY: NamedStatement = {
  name: 'find_payment_attempt_by_key',
  text: `${ATTEMPT} WHERE a.tenant_id = $1 AND a.provider_key = $2`,
};

const ORDER_OF: NamedStatement = {
  name: 'order_of_payment',
  text: 'SELECT order_id AS "orderId" FROM waybill.payments WHERE tenant_id = $1 AND id = $2',
};

/** Whoever moves a payment locks its order first. */
const LOCK_ORDER: NamedStatement = {
  name: 'lock_order_of_payment',
  text: 'SELECT FROM waybill.lock_order_details($1, $2, NULL)',
};

const STEPS_MADE: NamedStatement = {
  name: 'payment_steps_made',
  text: `SELECT machine, "entityId", "from", "to", reason FROM (
           SELECT 'payment' AS machine, h.payment_id AS "entityId", h.from_status AS "from", h.to_status AS "to", h.reason, h.changed_at, h.seq
           FROM waybill.payment_status_history h
           WHERE h.tenant_id = $1 AND h.payment_id = $2 AND h.xmin = pg_current_xact_id_if_assigned()::xid
           UNION ALL
           SELECT 'refund', h.refund_id, h.from_status, h.to_status, h.reason, h.changed_at, h.seq
           FROM waybill.refunds r JOIN waybill.refund_status_history h ON h.tenant_id = $1 AND h.refund_id = r.id
           WHERE r.tenant_id = $1 AND r.payment_id = $2 AND h.xmin = pg_current_xact_id_if_assigned()::xid
         ) made WHERE "from" IS NOT NULL ORDER BY changed_at, seq`,
};

const COVERAGE: NamedStatement = {
  name: 'payment_coverage',
  text: `SELECT o.total, coalesce(p.authorized - p.refunded - p.refunding, 0) AS authorized,
                coalesce(p.captured - p.refunded - p.refunding, 0) AS captured
         FROM waybill.orders o LEFT JOIN waybill.payments p ON p.tenant_id = $1 AND p.order_id = o.id
           AND p.status NOT IN ('declined', 'voided', 'refunded')
         WHERE o.tenant_id = $1 AND o.id = $2`,
};

const KEEP_EVENT: NamedStatement = {
  name: 'keep_webhook_event',
  text: 'SELECT waybill.keep_webhook_event($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS outcome',
};

/** In the order of the command function's parameters: result, reference, amount, code. */
function settlementOf(result: ProviderResult | null): unknown[] {
  if (result === null) return ['needs_reconciliation', null, null, null];
  if (result.kind === 'refused') return ['refused', result.reference, null, result.code];
  return ['succeeded', result.reference, result.amount, null];
}
