import { type DynamicModule, Module } from '@nestjs/common';
import { AuditModule } from './audit.module.js';
import { CheckpointDirectory } from './log/checkpoint-directory.js';
import { LogGrowth } from './log/log-growth.js';
import { Sealer } from './log/sealer.js';
import { SealerMetrics } from './log/sealer-metrics.js';
import { sealerPool } from './log/sealer-pool.js';
import { type SigningKeySource, SigningKeys } from './log/signing-keys.js';
import { PoolCloser } from './log/pool-closer.js';

export interface AuditLogSettings {
  /** Address of `waybill_sealer`; null where this process neither seals nor verifies. */
  sealerUrl: string | null;
  signingKey: SigningKeySource | null;
  origin: string;
  checkpointDir: string;
  /** Milliseconds; null where another process seals. */
  sealInterval: number | null;
}

/** The log over the events: sealer, checkpoints, proofs, feed, export, verification. */
@Module({})
export class AuditLogModule {
  static register(settings: AuditLogSettings): DynamicModule {
    const { sealerUrl, signingKey, sealInterval, origin, checkpointDir } = settings;
    const doesSeal = sealerUrl !== null && signingKey !== null && sealInterval !== null;
    return {
      module: AuditLogModule,
      imports: [AuditModule],
      providers: [
        LogGrowth,
        SealerMetrics,
        ...(doesSeal
          ? [
              { provide: PoolCloser, useFactory: () => new PoolCloser(sealerPool(sealerUrl)) },
              {
                provide: Sealer,
                inject: [PoolCloser, LogGrowth, SealerMetrics],
                useFactory: ({ pool }: PoolCloser, growth: LogGrowth, metrics: SealerMetrics) =>
                  new Sealer(
                    {
                      pool,
                      keys: new SigningKeys(signingKey),
                      origin,
                      directory: new CheckpointDirectory(checkpointDir),
                    },
                    sealInterval,
                    growth,
                    metrics,
                  ),
              },
            ]
          : []),
      ],
      exports: [SealerMetrics],
    };
  }
}
