import { Injectable, type OnModuleInit } from '@nestjs/common';
import { v7 as uuid } from 'uuid';
import type { TenantTransaction } from '../database/index.js';
import type { ExternalWork, ResumedWork } from '../idempotency/index.js';
import { WorkflowService } from '../workflow/index.js';
import type { AuthorizeBody, CaptureBody, RefundBody } from './dto/payment-body.dto.js';
import type { PaymentAttempt, PaymentDetails } from './payment.entity.js';
import { PaymentWork } from './payment-work.js';
import { OrderToPayNotFound, PaymentNotFound } from './payments.errors.js';
import { PaymentsRepository } from './payments.repository.js';
import { type Operation, providerKey } from './provider-key.js';
import { PaymentProviders } from './providers/payment-providers.js';

/** What can be done with payments. What asks a provider comes back as work for the idempotency module. */
@Injectable()
export class PaymentsService implements OnModuleInit {
  constructor(
    private readonly payments: PaymentsRepository,
    private readonly providers: PaymentProviders,
    private readonly work: PaymentWork,
    private readonly workflow: WorkflowService,
  ) {}

  /** Everything else that payments and refunds do follows what the provider did. */
  onModuleInit(): void {
    this.workflow.onlyTheseAreDecided('payment', ['capturing', 'voiding']);
    this.workflow.onlyTheseAreDecided('refund', []);
  }

  async get(tx: TenantTransaction, id: string): Promise<PaymentDetails> {
    return found(await this.payments.find(tx, id));
  }

  /** Has an amount held for an order. */
  authorize(orderId: string, { paymentMethod, amount = null }: AuthorizeBody): ExternalWork {
    return this.begin(async (tx, clientKey, attemptId) => {
      const payment = await this.payments.beginPayment(tx, {
        id: uuid(),
        attemptId,
        orderId,
        provider: this.providers.forNewPayments.name,
        providerKey: providerKey(tx.context.tenantId, orderId, 'authorize', clientKey),
        paymentMethod,
        amount,
      });
      if (!payment) throw new OrderToPayNotFound();
    });
  }

  /** Takes what is held, or a part of it; the rest is let go. */
  capture(id: string, { amount = null }: CaptureBody): ExternalWork {
    return this.begin(async (tx, clientKey, attemptId) => {
      const key = await this.keyOf(tx, id, 'capture', clientKey);
      await this.moveTo(tx, id, 'capturing', () => this.payments.beginCapture(tx, id, attemptId, key, amount));
    });
  }

  /** Lets go of what is held. */
  void(id: string): ExternalWork {
    return this.begin(async (tx, clientKey, attemptId) => {
      const key = await this.keyOf(tx, id, 'void', clientKey);
      await this.moveTo(tx, id, 'voiding', () => this.payments.beginVoid(tx, id, attemptId, key));
    });
  }

  /** Gives back what was taken, or a part of it. */
  refund(id: string, { amount = null, tax = null, reason = null }: RefundBody): ExternalWork {
    return this.begin(async (tx, clientKey, attemptId) => {
      const key = await this.keyOf(tx, id, 'refund', clientKey);
      const refund = { id: uuid(), attemptId, providerKey: key, amount, tax, reason };
      if (!(await this.payments.beginRefund(tx, id, refund))) throw new PaymentNotFound();
    });
  }

  /** Capturing and voiding are steps of the payment themselves, before the provider has been asked. */
  private moveTo(
    tx: TenantTransaction,
    id: string,
    to: string,
    begin: () => Promise<PaymentDetails | null>,
  ): Promise<PaymentDetails> {
    const change = { machine: 'payment', entityId: id, to, reason: null };
    return this.workflow.transition<PaymentDetails, PaymentDetails>(tx, change, {
      lock: async () => found(await this.payments.lock(tx, id)),
      move: async () => found(await begin()),
      read: () => this.get(tx, id),
    });
  }

  private async keyOf(tx: TenantTransaction, paymentId: string, operation: Operation, clientKey: string) {
    const orderId = await this.payments.orderOf(tx, paymentId);
    if (!orderId) throw new PaymentNotFound();
    return providerKey(tx.context.tenantId, orderId, operation, clientKey);
  }

  /** Work whose first transaction is `write`, and whose rest is what a retry or the recoverer would do as well. */
  private begin(write: (tx: TenantTransaction, clientKey: string, attemptId: string) => Promise<void>): ExternalWork {
    let begun: ResumedWork | undefined;
    const rest = (): ResumedWork => {
      if (!begun) throw new Error('The call was made before its preparation');
      return begun;
    };
    return {
      prepare: async (tx, clientKey) => {
        const attemptId = uuid();
        await write(tx, clientKey, attemptId);
        const attempt: PaymentAttempt | null = await this.payments.findAttempt(tx, attemptId);
        if (!attempt) throw new Error('The attempt that was just written is gone');
        begun = this.work.workOf(tx.context.tenantId, attempt, { ageSeconds: 0, attempt: 1 });
        return this.work.callOf(attempt);
      },
      call: (signal) => rest().call(signal),
      settle: (tx, outcome) => rest().settle(tx, outcome),
    };
  }
}

function found(payment: PaymentDetails | null): PaymentDetails {
  if (!payment) throw new PaymentNotFound();
  return payment;
}
