import { createHash } from 'node:crypto';
import { Injectable, Logger } from '@nestjs/common';
import { SystemUsers, type TenantTransaction, TransactionRunner } from '../database/index.js';
import { WorkflowService } from '../workflow/index.js';
import { DomainError, malformedBody } from '../problems/index.js';
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
    private readonly workflow: WorkflowService,
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
      if (kept === 'applied') await this.recordSteps(tx, event.key);
      return kept;
    });
    this.logger.debug(`${name} ${event.type} ${event.id}: ${outcome}`);
  }

  private async recordSteps(tx: TenantTransaction, key: string | null): Promise<void> {
    const attempt = key === null ? null : await this.payments.findAttemptByKey(tx, key);
    if (attempt) await this.workflow.record(tx, await this.payments.stepsMadeIn(tx, attempt.paymentId));
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
    if (!(error instanceof SyntaxError)) throw error;
    const detail = 'The signature is right, but the body is not JSON.';
    throw new DomainError(malformedBody, detail, { errors: [{ detail }] }, { cause: error });
  }
}
