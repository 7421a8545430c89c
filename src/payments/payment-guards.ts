import { Injectable } from '@nestjs/common';
import type { TenantTransaction } from '../database/index.js';
import { type TransitionChange, TransitionGuard, type TransitionGuardProvider } from '../workflow/index.js';
import { PaymentsRepository } from './payments.repository.js';

/**
 * For a row of `valid_transitions` of the machine `order`: the step waits until the order's total is held. Off by default;
 * `UPDATE waybill.valid_transitions SET guards = '{payment-authorized}' WHERE …` turns it on.
 */
@Injectable()
@TransitionGuard('payment-authorized')
export class PaymentAuthorizedGuard implements TransitionGuardProvider {
  constructor(private readonly payments: PaymentsRepository) {}

  async refuse(tx: TenantTransaction, { entityId }: TransitionChange): Promise<string | null> {
    const { total, held } = await this.payments.coverage(tx, entityId);
    if (held >= total) return null;
    return `Of ${total} minor units ${held} are held. POST /v1/orders/${entityId}/payments has them held.`;
  }
}

/** The same for a step that waits until the order's total is taken, such as shipping. */
@Injectable()
@TransitionGuard('payment-captured')
export class PaymentCapturedGuard implements TransitionGuardProvider {
  constructor(private readonly payments: PaymentsRepository) {}

  async refuse(tx: TenantTransaction, { entityId }: TransitionChange): Promise<string | null> {
    const { total, taken } = await this.payments.coverage(tx, entityId);
    if (taken >= total) return null;
    return `Of ${total} minor units ${taken} are taken. POST /v1/payments/{id}/captures takes what is held.`;
  }
}
