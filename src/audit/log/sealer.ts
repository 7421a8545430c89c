import { Injectable, Logger } from '@nestjs/common';
import { type PeriodicTask, PeriodicTasks } from '../../background/index.js';
import { errorReport } from '../../common/error-report.js';
import { LogGrowth } from './log-growth.js';
import { publishCheckpoint, sealBatch, type SealingTools } from './seal-batch.js';
import { tenantsWithLogs } from './log-store.js';
import { SealerMetrics } from './sealer-metrics.js';
import { SealRefused } from './open-log.js';

/** Most milliseconds between two publications while events come faster than one batch takes. */
const PUBLISH_EVERY = 1000;

/**
 * Seals beside the requests: every interval it empties the queue, tenant by tenant. Any number of processes may do so at
 * once; a tenant's log has one writer at a time.
 */
@Injectable()
export class Sealer {
  private readonly logger = new Logger(Sealer.name);
  private readonly task: PeriodicTask;
  private hasPublishedAll = false;
  /** What was said of a tenant last, so that a fault that lasts is logged once. */
  private readonly said = new Map<number, string>();

  /** @param interval milliseconds between two looks at the queue */
  constructor(
    tasks: PeriodicTasks,
    private readonly tools: SealingTools,
    interval: number,
    private readonly growth: LogGrowth,
    private readonly metrics: SealerMetrics,
  ) {
    this.task = tasks.add(Sealer.name, {
      name: 'sealing',
      failure: "The audit log can't be reached",
      interval,
      // Beside the start: a service with many tenants is ready before it has looked at all of their logs.
      first: 'with-start',
      run: () => this.round(),
    });
  }

  private async round(): Promise<void> {
    if (!this.hasPublishedAll) await this.publishAll();
    await this.sealAll();
  }

  /** After a crash between commit and publication the last checkpoint is still to be published. */
  private async publishAll(): Promise<void> {
    for (const tenantId of await tenantsWithLogs(this.tools.pool)) {
      if (this.task.isStopping) return;
      await this.guarded(tenantId, () => publishCheckpoint(this.tools, tenantId));
    }
    this.hasPublishedAll = true;
  }

  /** Seals all that is queued now. */
  private async sealAll(): Promise<void> {
    const backlog = await this.metrics.observe(this.tools.pool);
    for (const { tenantId } of backlog) await this.guarded(tenantId, () => this.sealTenant(tenantId));
    if (backlog.length > 0) await this.metrics.observe(this.tools.pool);
  }

  private async sealTenant(tenantId: number): Promise<void> {
    let published = performance.now();
    let isPublished = true;
    while (!this.task.isStopping) {
      const sealed = await sealBatch(this.tools, tenantId);
      if (!sealed) break;
      this.metrics.countSealed(sealed);
      this.growth.announce(tenantId);
      isPublished = false;
      // Under load there is a batch every few milliseconds; who keeps checkpoints needs none of each.
      if (performance.now() - published < PUBLISH_EVERY) continue;
      await publishCheckpoint(this.tools, tenantId);
      published = performance.now();
      isPublished = true;
    }
    if (!isPublished) await publishCheckpoint(this.tools, tenantId);
    this.said.delete(tenantId);
    this.metrics.setRefused(tenantId, false);
  }

  /** One tenant's trouble must not keep the others waiting. */
  private async guarded(tenantId: number, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { message, stack } = errorReport(error);
      this.metrics.setRefused(tenantId, error instanceof SealRefused);
      if (this.said.get(tenantId) === message) return;
      this.said.set(tenantId, message);
      this.logger.error(`Sealing of tenant ${tenantId} stopped: ${message}`, stack);
    }
  }
}
