import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { AuditLogModule } from './audit/index.js';
import { createValidationPipe, ProblemFilter, ProblemPagesController } from './common/index.js';
import type { ServiceConfig } from './config.js';
import { DatabaseModule } from './database/index.js';
import { HealthController } from './health/health.controller.js';
import { IdempotencyModule } from './idempotency/index.js';
import { IdentityModule } from './identity/index.js';
import { OrdersModule } from './orders/index.js';
import { PaymentsModule } from './payments/index.js';
import { WorkflowModule } from './workflow/index.js';

@Module({})
export class AppModule {
  /** @param extensions modules that a deployment adds, with guards and hooks for instance */
  static register(config: ServiceConfig, extensions: readonly Type<unknown>[]): DynamicModule {
    const { database, databasePoolSize, idempotency, jwt, rateLimits, audit, payments } = config;
    return {
      module: AppModule,
      imports: [
        // Before the database: of two global interceptors the first one's module is the outer one.
        IdempotencyModule.register(idempotency),
        DatabaseModule.register({ url: database.appUrl, poolSize: databasePoolSize }),
        IdentityModule.register({ jwt, rateLimits }),
        WorkflowModule,
        AuditLogModule.register({ ...audit, sealerUrl: database.sealerUrl }),
        OrdersModule,
        PaymentsModule.register(payments),
        ...extensions,
      ],
      controllers: [HealthController, ProblemPagesController],
      providers: [
        { provide: APP_FILTER, useClass: ProblemFilter },
        { provide: APP_PIPE, useFactory: createValidationPipe },
      ],
    };
  }
}
