import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { type ProvidedHooks, signedBodyOf } from '../http/index.js';
import { ProviderNotFound, WebhookNotAccepted } from './payments.errors.js';
import { WebhookRefused } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';

/** Turns away what can't be a provider's event before anything of its body is read: anybody can send to this address. */
@Injectable()
export class PaymentWebhookGate {
  readonly hooks: Pick<ProvidedHooks, 'expectSignature'> = {
    expectSignature: (request, _reply, done) => {
      if (signedBodyOf(request)) this.expectSignature(request);
      done();
    },
  };

  constructor(private readonly providers: PaymentProviders) {}

  private expectSignature({ params, headers }: FastifyRequest): void {
    const provider = this.providers.find((params as { provider?: string }).provider ?? '');
    if (!provider) throw new ProviderNotFound();
    try {
      provider.expectSignature(headers);
    } catch (error) {
      if (error instanceof WebhookRefused) throw new WebhookNotAccepted(error.message);
      throw error;
    }
  }
}
