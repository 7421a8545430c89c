import { type DynamicModule, Global, Module } from '@nestjs/common';
import { APP_INTERCEPTOR, DiscoveryModule } from '@nestjs/core';
import { IdempotencyPageController } from './idempotency-page.controller.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { KeyStore } from './key-store.js';
import { KeySweeper } from './key-sweeper.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
import { IdempotentRouteCheck } from './route-check.js';

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
        KeySweeper,
        IdempotentRouteCheck,
        { provide: APP_INTERCEPTOR, useClass: IdempotencyInterceptor },
      ],
      exports: [IDEMPOTENCY_POLICY, KeySweeper],
    };
  }
}
