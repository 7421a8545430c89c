import { type DynamicModule, Global, Module } from '@nestjs/common';
import { APP_INTERCEPTOR, DiscoveryModule } from '@nestjs/core';
import { CallRecoverer } from './call-recoverer.js';
import { CallRunner } from './call-runner.js';
import { CallStore } from './call-store.js';
import { ExternalCallInterceptor } from './external-call.interceptor.js';
import { IdempotencyPageController } from './idempotency-page.controller.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { KeyStore } from './key-store.js';
import { KeySweeper } from './key-sweeper.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import { ProblemKeeper } from './problem-keeper.js';
import { IdempotentRouteCheck } from './route-check.js';
import { WorkResumers } from './work-resumers.js';

/** Import it before the database's module: its interceptor must be the outer one. */
@Global()
@Module({})
export class IdempotencyModule {
  static register(policy: IdempotencyPolicy): DynamicModule {
    return {
      module: IdempotencyModule,
      imports: [DiscoveryModule],
      controllers: [IdempotencyPageController],
      providers: [
        { provide: IDEMPOTENCY_POLICY, useValue: policy },
        KeyStore,
        ProblemKeeper,
        CallStore,
        CallRunner,
        CallRecoverer,
        WorkResumers,
        KeySweeper,
        IdempotentRouteCheck,
        { provide: APP_INTERCEPTOR, useClass: IdempotencyInterceptor },
        { provide: APP_INTERCEPTOR, useClass: ExternalCallInterceptor },
      ],
      exports: [IDEMPOTENCY_POLICY, KeySweeper, CallRecoverer],
    };
  }
}
