import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { PeriodicTasks } from '../background/index.js';
import { atKillPoint } from '../database/index.js';
import { AuditController } from './audit.controller.js';
import { AuditModule } from './audit.module.js';
import { FeedService } from './feed.service.js';
import { CheckpointDirectory } from './log/checkpoint-directory.js';
import type { SealStep } from './log/seal-batch.js';
import { cosignWith } from './witness/cosign-with.js';
import { type WitnessPolicy, Witnesses } from './witness/witnesses.js';
import { KnownEdges } from './log/known-edges.js';
import { LogGrowth } from './log/log-growth.js';
import { PoolCloser } from './log/pool-closer.js';
import { Sealer } from './log/sealer.js';
import { SealerMetrics } from './log/sealer-metrics.js';
import { sealerPool } from './log/sealer-pool.js';
import { type SigningKeySource, SigningKeys } from './log/signing-keys.js';
import { LogReader } from './log-reader.js';
import { ReceiptsService } from './receipts/receipts.service.js';
import { PublicLogs } from './tiles/public-logs.js';
import { TilesController } from './tiles/tiles.controller.js';
import { ProofsService } from './proofs.service.js';
import { VerificationController } from './verification.controller.js';
import { VerificationService } from './verification.service.js';
import { overdueAfter, Verifier } from './verify/verifier.js';

export interface AuditLogSettings {
  /** Address of `waybill_sealer`; null where this process neither seals nor verifies. */
  sealerUrl: string | null;
  signingKey: SigningKeySource | null;
  /** First part of every log's name. */
  origin: string;
  checkpointDir: string;
  /** Milliseconds between two sealings; null where another process seals. */
  sealInterval: number | null;
  /** Who cosigns what is published; null for nobody. */
  witnesses: WitnessPolicy | null;
}

/** The log over the events: sealer, checkpoints, proofs, feed, export, verification. */
@Module({})
export class AuditLogModule {
  static register(settings: AuditLogSettings): DynamicModule {
    return {
      module: AuditLogModule,
      imports: [AuditModule],
      controllers: [AuditController, VerificationController, TilesController],
      providers: [
        LogGrowth,
        SealerMetrics,
        LogReader,
        ProofsService,
        ReceiptsService,
        FeedService,
        PublicLogs,
        ...backgroundWork(settings),
      ],
      exports: [SealerMetrics],
    };
  }
}

function backgroundWork(settings: AuditLogSettings): Provider[] {
  const { sealerUrl, signingKey, sealInterval, origin } = settings;
  if (sealerUrl === null) return [{ provide: VerificationService, useFactory: () => new VerificationService(null) }];
  const keys = signingKey && new SigningKeys(signingKey);
  const directory = new CheckpointDirectory(settings.checkpointDir);
  const providers: Provider[] = [
    {
      provide: PoolCloser,
      useFactory: () => new PoolCloser(sealerPool(sealerUrl), sealerPool(sealerUrl, { isPatient: true })),
    },
    {
      provide: VerificationService,
      inject: [PoolCloser],
      useFactory: ({ patientPool }: PoolCloser) =>
        new VerificationService(
          new Verifier({
            pool: patientPool,
            origin,
            directory,
            keys,
            overdueAfter: overdueAfter(sealInterval),
          }),
        ),
    },
  ];
  if (keys && sealInterval !== null) {
    providers.push({
      provide: Sealer,
      inject: [PeriodicTasks, PoolCloser, LogGrowth, SealerMetrics],
      useFactory: (tasks: PeriodicTasks, { pool }: PoolCloser, growth: LogGrowth, metrics: SealerMetrics) => {
        const witnesses = settings.witnesses && new Witnesses(settings.witnesses);
        metrics.witnesses = witnesses;
        const cosign = witnesses && cosignWith(witnesses);
        const onStep = (step: SealStep): void | Promise<void> => atKillPoint(`seal.${step}`);
        const tools = { pool, keys, origin, directory, cosign, edges: new KnownEdges(), onStep };
        return new Sealer(tasks, tools, sealInterval, growth, metrics);
      },
    });
  }
  return providers;
}
