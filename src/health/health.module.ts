import { type DynamicModule, Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { Draining } from './draining.js';
import { HealthController } from './health.controller.js';

@Module({})
export class HealthModule {
  static register(draining: Draining): DynamicModule {
    return {
      module: HealthModule,
      // The problem filter logs what readiness answers; terminus would say it again.
      imports: [TerminusModule.forRoot({ logger: false })],
      controllers: [HealthController],
      providers: [{ provide: Draining, useValue: draining }],
    };
  }
}
