import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { AuditLogModule } from './audit/index.js';
import { BackgroundModule } from './background/index.js';
import { createValidationPipe } from './validation/index.js';
import { ProblemFilter, ProblemPagesController } from './http/index.js';
import type { ServiceConfig } from './config.js';
import { DatabaseModule } from './database/index.js';
import { type Draining, HealthModule } from './health/index.js';
import { IdempotencyModule } from './idempotency/index.js';
import { IdentityModule } from './identity/index.js';
import { ObservabilityModule, type ServiceMetrics, type Tracing } from './observability/index.js';
import { OrdersModule } from './orders/index.js';
import { PaymentsModule } from './payments/index.js';
import { WorkflowModule } from './workflow/index.js';

/** What runs beside the requests, made before the modules. */
export interface Operation {
  draining: Draining;
  metrics: ServiceMetrics;
  tracing: Tracing | null;
}

@Module({})
export class AppModule {
  /** @param extensions modules that a deployment adds, with guards and hooks for instance */
  static register(
    config: ServiceConfig,
    { draining, metrics, tracing }: Operation,
    extensions: readonly Type<unknown>[],
  ): DynamicModule {
    const { database, databasePoolSize, databaseTimeouts, idempotency, jwt, rateLimits, audit, payments } = config;
    return {
      module: AppModule,
      imports: [
        BackgroundModule,
        IdempotencyModule.register(idempotency),
        DatabaseModule.register({
          url: database.appUrl,
          poolSize: databasePoolSize,
          timeouts: databaseTimeouts,
          schema: { extensionSteps: config.extensionSteps ?? [], allowsNewer: config.allowsNewerDatabase },
        }),
        HealthModule.register(draining),
        ObservabilityModule.register(metrics, tracing),
        IdentityModule.register({ jwt, rateLimits }),
        WorkflowModule,
        AuditLogModule.register({ ...audit, sealerUrl: database.sealerUrl }),
        OrdersModule,
        PaymentsModule.register(payments),
        ...extensions,
      ],
      controllers: [ProblemPagesController],
      providers: [
        { provide: APP_FILTER, useClass: ProblemFilter },
        { provide: APP_PIPE, useFactory: createValidationPipe },
      ],
    };
  }
}
