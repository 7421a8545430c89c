import { type DynamicModule, Global, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { AnsweredKeys } from './answered-keys.js';
import { CallRecoverer } from './call-recoverer.js';
import { CallRunner } from './call-runner.js';
import { CallStore } from './call-store.js';
import { IdempotencyPageController } from './idempotency-page.controller.js';
import { KeyStore } from './key-store.js';
import { KeySweeper } from './key-sweeper.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import { ProblemKeeper } from './problem-keeper.js';
import { IdempotentRouteCheck } from './route-check.js';
import { WorkResumers } from './work-resumers.js';

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
        AnsweredKeys,
        KeyStore,
        ProblemKeeper,
        CallStore,
        CallRunner,
        CallRecoverer,
        WorkResumers,
        KeySweeper,
        IdempotentRouteCheck,
      ],
      exports: [
        IDEMPOTENCY_POLICY,
        KeySweeper,
        CallRecoverer,
        // What the interceptors of `@Idempotent()` take, in whichever module a handler is.
        AnsweredKeys,
        KeyStore,
        ProblemKeeper,
        CallStore,
        CallRunner,
        WorkResumers,
      ],
    };
  }
}
