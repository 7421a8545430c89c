import { createHash } from 'node:crypto';
import { Injectable, Logger } from '@nestjs/common';
import { SystemUsers, type TenantTransaction, TransactionRunner } from '../database/index.js';
import { StepFigures } from '../workflow/index.js';
import { stepsOf } from './payment-steps.js';
import { ProviderNotFound, WebhookNotAccepted } from './payments.errors.js';
import { PaymentsRepository } from './payments.repository.js';
import { type PaymentProvider, type ProviderEvent, WebhookRefused } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';

/** An event as it arrived. */
export interface Delivery {
  provider: string;
  body: Buffer;
  headers: Readonly<Record<string, unknown>>;
  requestId: string;
}

/** Events of providers: each takes effect once, in whatever order they come, and is kept. */
@Injectable()
export class PaymentWebhooksService {
  private readonly logger = new Logger(PaymentWebhooksService.name);

  constructor(
    private readonly payments: PaymentsRepository,
    private readonly providers: PaymentProviders,
    private readonly transactions: TransactionRunner,
    private readonly systemUsers: SystemUsers,
    private readonly steps: StepFigures,
  ) {}

  /** Returns once the event is committed; until then the provider has to send it again. */
  async receive({ provider: name, body, headers, requestId }: Delivery): Promise<void> {
    const provider = this.providers.find(name);
    if (!provider) throw new ProviderNotFound();
    const event = await read(provider, body, headers);
    const digest = createHash('sha256').update(body).digest();
    const context = event.tenantId === null ? null : await this.systemUsers.contextOf(event.tenantId, requestId);
    if (!context) {
      await this.payments.keepStrayEvent(name, event, digest);
      return;
    }
    const outcome = await this.transactions.run(context, 'write', async (tx) => {
      const kept = await this.payments.keepEvent(tx, name, event, digest);
      if (kept === 'applied') await this.countSteps(tx, event.key);
      return kept;
    });
    this.logger.debug(`${name} ${event.type} ${event.id}: ${outcome}`);
  }

  private async countSteps(tx: TenantTransaction, key: string | null): Promise<void> {
    const attempt = key === null ? null : await this.payments.findAttemptByKey(tx, key);
    const payment = attempt && (await this.payments.find(tx, attempt.paymentId));
    if (payment) for (const step of stepsOf(attempt, payment)) this.steps.countAtCommit(tx, step);
  }
}

async function read(
  provider: PaymentProvider,
  body: Buffer,
  headers: Readonly<Record<string, unknown>>,
): Promise<ProviderEvent> {
  try {
    return await provider.readEvent(body, headers);
  } catch (error) {
    if (error instanceof WebhookRefused) throw new WebhookNotAccepted(error.message);
    throw error;
  }
}
