import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { call, type Command, command, type NamedStatement, type TenantTransaction } from '../database/index.js';
import type { KnownChange } from '../workflow/index.js';
import { type PaymentAttempt, PaymentDetails } from './payment.entity.js';
import { paymentError } from './payments.errors.js';
import type { ProviderResult } from './providers/payment-provider.js';

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

/** Every query on the tables of payments. Commands return null when there is no such order or payment. */
@Injectable()
export class PaymentsRepository {
  private readonly begin: {
    payment: Command<(typeof PAYMENT)[number]>;
    capture: Command<(typeof CAPTURE)[number]>;
    void: Command<(typeof VOID)[number]>;
    refund: Command<(typeof REFUND)[number]>;
  };
  private readonly settleAttempt: Command<(typeof SETTLEMENT)[number]>;
  private readonly findPayment: NamedStatement;

  constructor(dataSource: DataSource) {
    const { columns } = dataSource.getMetadata(PaymentDetails);
    const list = columns.map((column) => `${column.databaseName} AS "${column.propertyName}"`).join(', ');
    this.begin = {
      payment: command('begin_payment', list, PAYMENT),
      capture: command('begin_capture', list, CAPTURE),
      void: command('begin_void', list, VOID),
      refund: command('begin_refund', list, REFUND),
    };
    this.settleAttempt = command('settle_payment_attempt', list, SETTLEMENT);
    this.findPayment = {
      name: 'find_payment',
      text: `SELECT ${list} FROM waybill.payment_details WHERE tenant_id = $1 AND id = $2`,
    };
  }

  beginPayment(
    tx: TenantTransaction,
    { id, attemptId, orderId, ...payment }: NewPayment,
  ): Promise<PaymentDetails | null> {
    const given = { order: orderId, payment: id, attempt: attemptId, ...payment };
    return this.one(() => call(tx, this.begin.payment, given));
  }

  /** @param amount null is all that is held */
  beginCapture(tx: TenantTransaction, id: string, attemptId: string, providerKey: string, amount: number | null) {
    return this.one(() => call(tx, this.begin.capture, { payment: id, attempt: attemptId, providerKey, amount }));
  }

  beginVoid(tx: TenantTransaction, id: string, attemptId: string, providerKey: string) {
    return this.one(() => call(tx, this.begin.void, { payment: id, attempt: attemptId, providerKey }));
  }

  beginRefund(tx: TenantTransaction, payment: string, refund: NewRefund): Promise<PaymentDetails | null> {
    const { id, attemptId, ...asked } = refund;
    return this.one(() => call(tx, this.begin.refund, { payment, refund: id, attempt: attemptId, ...asked }));
  }

  /** Writes down how an attempt ended; null when nobody can tell. One that has ended stays as it is. */
  settle(tx: TenantTransaction, attempt: string, result: ProviderResult | null): Promise<PaymentDetails | null> {
    return this.one(() => call(tx, this.settleAttempt, { attempt, ...settlementOf(result) }));
  }

  find(tx: TenantTransaction, id: string): Promise<PaymentDetails | null> {
    return this.one(() => tx.rows(this.findPayment, [tx.context.tenantId, id]));
  }

  /** Reads a payment and keeps others from moving it until the transaction ends. */
  async lock(tx: TenantTransaction, id: string): Promise<PaymentDetails | null> {
    const orderId = await this.orderOf(tx, id);
    if (orderId === null) return null;
    await tx.rows(LOCK_ORDER, [tx.context.tenantId, orderId]);
    return this.find(tx, id);
  }

  /** The steps of a payment and its refunds that this transaction has made, in their order. */
  stepsMadeIn(tx: TenantTransaction, paymentId: string): Promise<KnownChange[]> {
    return tx.rows<KnownChange>(STEPS_MADE, [tx.context.tenantId, paymentId]);
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

  /** What an order asks for, and what its payments hold and have taken of it. */
  async coverage(tx: TenantTransaction, orderId: string): Promise<Coverage> {
    const [coverage] = await call<Coverage, 'order'>(tx, ORDER_COVERAGE, { order: orderId });
    return coverage ?? { total: 0, held: 0, taken: 0 };
  }

  private async one(rows: () => Promise<PaymentDetails[]>): Promise<PaymentDetails | null> {
    try {
      const [payment] = await rows();
      return payment ?? null;
    } catch (error) {
      throw paymentError(error);
    }
  }
}

const PAYMENT = ['order', 'payment', 'attempt', 'provider', 'providerKey', 'paymentMethod', 'amount'] as const;
const CAPTURE = ['payment', 'attempt', 'providerKey', 'amount'] as const;
const VOID = ['payment', 'attempt', 'providerKey'] as const;
const REFUND = ['payment', 'refund', 'attempt', 'providerKey', 'amount', 'tax', 'reason'] as const;
const SETTLEMENT = ['attempt', 'result', 'providerRef', 'amount', 'declineCode'] as const;
const ORDER_COVERAGE = command('order_coverage', 'total, held, taken', ['order']);

/** Minor units of an order; `held` counts what is taken, too. */
export interface Coverage {
  total: number;
  held: number;
  taken: number;
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

function settlementOf(result: ProviderResult | null) {
  if (result === null) return { result: 'needs_reconciliation', providerRef: null, amount: null, declineCode: null };
  const { reference: providerRef } = result;
  if (result.kind === 'refused') return { result: 'refused', providerRef, amount: null, declineCode: result.code };
  return { result: 'succeeded', providerRef, amount: result.amount, declineCode: null };
}
