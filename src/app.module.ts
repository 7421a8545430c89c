import { type DynamicModule, Module } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { createValidationPipe, ProblemFilter, ProblemPagesController } from './common/index.js';
import { DatabaseModule } from './database/index.js';
import { HealthController } from './health/health.controller.js';
import { IdentityModule } from './identity/index.js';
import { OrdersModule } from './orders/index.js';
import { WorkflowModule } from './workflow/index.js';

export interface AppSettings {
  /** Address of `waybill_app`. */
  databaseUrl: string;
  databasePoolSize: number;
}

@Module({})
export class AppModule {
  static register({ databaseUrl, databasePoolSize }: AppSettings): DynamicModule {
    return {
      module: AppModule,
      imports: [
        DatabaseModule.register({ url: databaseUrl, poolSize: databasePoolSize }),
        IdentityModule,
        WorkflowModule,
        OrdersModule,
      ],
      controllers: [HealthController, ProblemPagesController],
      providers: [
        { provide: APP_FILTER, useClass: ProblemFilter },
        { provide: APP_PIPE, useFactory: createValidationPipe },
      ],
    };
  }
}
