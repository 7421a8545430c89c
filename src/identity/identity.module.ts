import { type DynamicModule, Module } from '@nestjs/common';
import { APP_GUARD, DiscoveryModule } from '@nestjs/core';
import { ApiKeysController } from './api-keys.controller.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';
import { AuthGuard } from './auth.guard.js';
import { Authenticator } from './authenticator.js';
import { CredentialCache } from './credential-cache.js';
import { GuardedRoutes } from './guarded-routes.js';
import { KeyUseRecorder } from './key-use-recorder.js';
import { RateLimits, type RateLimitSettings } from './rate-limits.js';
import { RequestGate } from './request-gate.js';
import { TenantsRepository } from './tenants.repository.js';
import { type JwtSettings, TokenVerifier } from './tokens/token-verifier.js';
import { UsersController } from './users.controller.js';
import { UsersRepository } from './users.repository.js';
import { UsersService } from './users.service.js';

export interface IdentitySettings {
  /** Null: no tokens, API keys only. */
  jwt: JwtSettings | null;
  rateLimits: RateLimitSettings;
}

@Module({})
export class IdentityModule {
  static register({ jwt, rateLimits }: IdentitySettings): DynamicModule {
    return {
      module: IdentityModule,
      imports: [DiscoveryModule],
      controllers: [UsersController, ApiKeysController],
      providers: [
        ApiKeysRepository,
        ApiKeysService,
        Authenticator,
        GuardedRoutes,
        KeyUseRecorder,
        RequestGate,
        TenantsRepository,
        UsersRepository,
        UsersService,
        { provide: CredentialCache, useFactory: () => new CredentialCache() },
        { provide: RateLimits, useFactory: () => new RateLimits(rateLimits) },
        { provide: TokenVerifier, useFactory: () => jwt && new TokenVerifier(jwt) },
        { provide: APP_GUARD, useClass: AuthGuard },
      ],
    };
  }
}
