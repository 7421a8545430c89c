import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { ApiKeysRepository } from './api-keys.repository.js';
import { AuthGuard } from './auth.guard.js';

@Module({ providers: [ApiKeysRepository, { provide: APP_GUARD, useClass: AuthGuard }] })
export class IdentityModule {}
