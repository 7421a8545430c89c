import { type DynamicModule, Inject, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import { ServiceMetrics } from './service-metrics.js';
import type { Tracing } from './tracing.js';

const TRACING = Symbol('tracing');

/** Sends the last spans when everything else has ended. */
@Injectable()
class TracingShutdown implements OnApplicationShutdown {
  constructor(@Inject(TRACING) private readonly tracing: Tracing | null) {}

  async onApplicationShutdown(): Promise<void> {
    await this.tracing?.stop();
  }
}

@Module({})
export class ObservabilityModule {
  static register(metrics: ServiceMetrics, tracing: Tracing | null): DynamicModule {
    return {
      module: ObservabilityModule,
      providers: [
        { provide: ServiceMetrics, useValue: metrics },
        { provide: TRACING, useValue: tracing },
        TracingShutdown,
      ],
      exports: [ServiceMetrics],
    };
  }
}
