import { createHash } from 'node:crypto';
import { Injectable, Logger } from '@nestjs/common';
import { SystemUsers, type TenantTransaction, type TransactionContext, TransactionRunner } from '../database/index.js';
import { WorkflowService } from '../workflow/index.js';
import { DomainError, malformedBody } from '../problems/index.js';
import { ProviderNotFound, WebhookNotAccepted } from './payments.errors.js';
import { PaymentsRepository } from './payments.repository.js';
import {
  FactRefused,
  type KeptDelivery,
  type KeptEvent,
  ProviderFactsRepository,
} from './provider-facts.repository.js';
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
  private readonly conflictListeners: (() => void)[] = [];

  constructor(
    private readonly payments: PaymentsRepository,
    private readonly facts: ProviderFactsRepository,
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
    const context = await this.contextOf(name, event, requestId);
    if (!context) {
      await this.facts.keepStrayEvent(name, event, digest);
      return;
    }
    const { outcome, paymentId } = await this.keep(context, name, { event, digest, problem: event.problem });
    this.logger.debug(`${name} ${event.type} ${event.id}: ${outcome}`);
    if (outcome === 'conflict') this.report(name, event, paymentId);
    if (outcome === 'applied' && paymentId !== null) await this.retryConflicts(context, name, paymentId);
  }

  /** Tells of each event that is for a person, once it is kept. */
  onConflict(listener: () => void): void {
    this.conflictListeners.push(listener);
  }

  /** By metadata that we set, or, for what somebody did at the provider without us, by the provider's name of the payment. */
  private async contextOf(name: string, event: ProviderEvent, requestId: string): Promise<TransactionContext | null> {
    const named = event.tenantId === null ? null : await this.systemUsers.contextOf(event.tenantId, requestId);
    if (named || event.paymentRef === null) return named;
    const tenantId = await this.facts.tenantOf(name, event.paymentRef);
    return tenantId === null ? null : this.systemUsers.contextOf(tenantId, requestId);
  }

  /** What the database refuses is kept as a conflict: sent again it would be refused again. */
  private async keep(context: TransactionContext, name: string, delivery: KeptDelivery): Promise<KeptEvent> {
    try {
      return await this.transactions.run(context, 'write', async (tx) => {
        const kept = await this.facts.keepEvent(tx, name, delivery);
        if (kept.outcome === 'applied' && kept.paymentId !== null) await this.recordSteps(tx, kept.paymentId);
        return kept;
      });
    } catch (error) {
      if (!(error instanceof FactRefused) || delivery.problem !== null) throw error;
      return this.keep(context, name, { ...delivery, problem: error.message });
    }
  }

  /** Facts come in any order: what could not be before may fit now. */
  private async retryConflicts(context: TransactionContext, name: string, paymentId: string): Promise<void> {
    const open = await this.transactions.run(context, 'read', (tx) => this.facts.openConflicts(tx, paymentId));
    for (const event of open) {
      try {
        await this.transactions.run(context, 'write', async (tx) => {
          await this.facts.retryConflict(tx, name, event);
          await this.recordSteps(tx, paymentId);
        });
      } catch (error) {
        if (!(error instanceof FactRefused)) throw error;
      }
    }
  }

  private report(name: string, { id }: ProviderEvent, paymentId: string | null): void {
    this.logger.warn(
      `${name} says of payment ${paymentId} what can't be so here (event ${id}): GET /v1/payments/${paymentId} shows it ` +
        'under conflicts. Its order is not canceled until somebody has looked; docs/payments.md says how to resolve it.',
    );
    for (const listener of this.conflictListeners) listener();
  }

  private async recordSteps(tx: TenantTransaction, paymentId: string): Promise<void> {
    await this.workflow.record(tx, await this.payments.stepsMadeIn(tx, paymentId));
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
