import { Injectable } from '@nestjs/common';
import { entityTag } from '../http/index.js';
import type { TenantTransaction } from '../database/index.js';
import {
  type ExternalWorkResumer,
  type ResumedWork,
  ResumesExternalWork,
  type Settlement,
  type StartedCall,
  type UnfinishedCall,
} from '../idempotency/index.js';
import { WorkflowService } from '../workflow/index.js';
import { PaymentDto, RefundDto } from './dto/payment.dto.js';
import type { PaymentAttempt, PaymentDetails } from './payment.entity.js';
import { PaymentDeclined } from './payments.errors.js';
import { PaymentsRepository } from './payments.repository.js';
import type { PaymentProvider, ProviderRequest, ProviderResult } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';

export const PAYMENT_RESOURCE = 'payment';

/** What is known after a call: a result, nothing that anybody could tell, or that a webhook was faster. */
type AttemptOutcome = { kind: 'result'; result: ProviderResult } | { kind: 'untold' } | { kind: 'settled' };

/** Carries attempts out, from what the database knows of them: for the request that began one and for whoever takes over. */
@Injectable()
@ResumesExternalWork(PAYMENT_RESOURCE)
export class PaymentWork implements ExternalWorkResumer {
  constructor(
    private readonly payments: PaymentsRepository,
    private readonly providers: PaymentProviders,
    private readonly workflow: WorkflowService,
  ) {}

  async resume(tx: TenantTransaction, call: UnfinishedCall): Promise<ResumedWork> {
    const attempt = await this.payments.findAttemptByKey(tx, call.providerRef);
    if (!attempt) throw new Error(`There is no payment attempt for ${call.resource}`);
    return this.workOf(tx.context.tenantId, attempt, call);
  }

  /** What the idempotency module keeps, so that `resume` finds the attempt again. */
  callOf({ paymentId, providerKey }: Pick<PaymentAttempt, 'paymentId' | 'providerKey'>): StartedCall {
    return { resource: `${PAYMENT_RESOURCE}/${paymentId}`, providerRef: providerKey };
  }

  workOf(
    tenantId: number,
    attempt: PaymentAttempt,
    { ageSeconds, attempt: repetition }: Pick<UnfinishedCall, 'ageSeconds' | 'attempt'>,
  ): ResumedWork<AttemptOutcome> {
    return {
      call: async (signal) => {
        if (attempt.status !== 'processing') return { kind: 'settled' };
        const provider = this.providers.get(attempt.provider);
        const request = requestOf(tenantId, attempt);
        if (ageSeconds >= provider.replaySeconds) {
          const found = await provider.lookUp(request, signal);
          return found ? { kind: 'result', result: found } : { kind: 'untold' };
        }
        return { kind: 'result', result: await performOrLookUp(provider, request, repetition, signal) };
      },
      settle: (tx, outcome) => this.settle(tx, attempt.id, outcome),
    };
  }

  private async settle(tx: TenantTransaction, attemptId: string, outcome: AttemptOutcome): Promise<Settlement> {
    if (outcome.kind !== 'settled') {
      const settled = await this.payments.settle(tx, attemptId, outcome.kind === 'result' ? outcome.result : null);
      if (settled) await this.workflow.record(tx, await this.payments.stepsMadeIn(tx, settled.id));
    }
    // A webhook may have settled it, with another result even: what the database says is what happened.
    const attempt = await this.payments.findAttempt(tx, attemptId);
    const payment = attempt && (await this.payments.find(tx, attempt.paymentId));
    if (!payment) throw new Error(`Payment attempt ${attemptId} is gone`);
    if (attempt.status === 'refused') return { problem: new PaymentDeclined(attempt.declineCode ?? 'refused') };
    return answerOf(attempt, payment);
  }
}

/**
 * Repeats a request under its key. When a repetition fails too, the provider is asked what became of the first one: some
 * keep even a 500 under the key and would answer it until the key is forgotten.
 */
async function performOrLookUp(
  provider: PaymentProvider,
  request: ProviderRequest,
  repetition: number,
  signal: AbortSignal,
): Promise<ProviderResult> {
  try {
    return await provider.perform(request, signal);
  } catch (error) {
    const found = repetition > 1 && !signal.aborted ? await provider.lookUp(request, signal) : null;
    if (found) return found;
    throw error;
  }
}

function requestOf(tenantId: number, attempt: PaymentAttempt): ProviderRequest {
  const { providerKey: key, orderId, operation, amount, currency } = attempt;
  const metadata = { waybill_tenant: String(tenantId), waybill_order: orderId, waybill_key: key };
  const common = { key, amount, currency, metadata };
  if (operation === 'authorize') return { ...common, operation, paymentMethod: attempt.paymentMethod ?? '' };
  return { ...common, operation, paymentRef: attempt.paymentRef ?? '' };
}

function answerOf(attempt: PaymentAttempt, payment: PaymentDetails): Settlement {
  const location = `/v1/payments/${payment.id}`;
  const refund = payment.refunds.find(({ id }) => id === attempt.refundId);
  // The address is the payment's, whose ETag a refund doesn't have.
  if (refund) return { status: 201, headers: { location }, body: RefundDto.of(refund) };
  return { status: 201, headers: { location, etag: entityTag(payment.version) }, body: PaymentDto.of(payment) };
}
