import { type DynamicModule, Global, Module } from '@nestjs/common';
import { APP_INTERCEPTOR, DiscoveryModule } from '@nestjs/core';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { KeyStore } from './key-store.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';

/** Import it before the database's module: its interceptor must be the outer one. */
@Global()
@Module({})
export class IdempotencyModule {
  static register(policy: IdempotencyPolicy): DynamicModule {
    return {
      module: IdempotencyModule,
      imports: [DiscoveryModule],
      providers: [
        { provide: IDEMPOTENCY_POLICY, useValue: policy },
        KeyStore,
        { provide: APP_INTERCEPTOR, useClass: IdempotencyInterceptor },
      ],
    };
  }
}
