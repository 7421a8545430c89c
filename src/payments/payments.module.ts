import { type DynamicModule, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { WorkflowModule } from '../workflow/index.js';
import { PaymentAuthorizedGuard, PaymentCapturedGuard } from './payment-guards.js';
import { PaymentDetails } from './payment.entity.js';
import { PaymentWebhooksController } from './payment-webhooks.controller.js';
import { PaymentWebhooksService } from './payment-webhooks.service.js';
import { PaymentWork } from './payment-work.js';
import { PaymentsController } from './payments.controller.js';
import { PaymentsRepository } from './payments.repository.js';
import { PaymentWebhookGate } from './payment-webhook-gate.js';
import { PaymentsService } from './payments.service.js';
import { ProviderFactsRepository } from './provider-facts.repository.js';
import { PaymentProviders } from './providers/payment-providers.js';
import { SimulatedProvider } from './providers/simulated-provider.js';
import { StripeProvider, type StripeSettings } from './providers/stripe-provider.js';

export interface PaymentSettings {
  /** What new payments are made with. */
  provider: 'simulated' | 'stripe';
  /** Null where no key is set. Payments that were made with it can't be continued then. */
  stripe: StripeSettings | null;
}

@Module({})
export class PaymentsModule {
  static register({ provider, stripe }: PaymentSettings): DynamicModule {
    const providers = {
      provide: PaymentProviders,
      inject: [DataSource],
      useFactory: (dataSource: DataSource) =>
        new PaymentProviders(
          [new SimulatedProvider(dataSource), ...(stripe ? [new StripeProvider(stripe)] : [])],
          provider,
        ),
    };
    return {
      module: PaymentsModule,
      imports: [TypeOrmModule.forFeature([PaymentDetails]), WorkflowModule],
      controllers: [PaymentsController, PaymentWebhooksController],
      providers: [
        providers,
        PaymentsService,
        PaymentsRepository,
        ProviderFactsRepository,
        PaymentWork,
        PaymentWebhookGate,
        PaymentWebhooksService,
        PaymentAuthorizedGuard,
        PaymentCapturedGuard,
      ],
    };
  }
}
