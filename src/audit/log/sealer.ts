import { Injectable, Logger } from '@nestjs/common';
import { type PeriodicTask, PeriodicTasks } from '../../background/index.js';
import { errorReport } from '../../common/error-report.js';
import { LogGrowth } from './log-growth.js';
import { publishCheckpoint } from './publish-checkpoint.js';
import { sealBatch, type SealingTools } from './seal-batch.js';
import { tenantsWithLogs } from './log-store.js';
import { SealerMetrics } from './sealer-metrics.js';
import { SealRefused } from './seal-refused.js';
import { QuorumMissed } from '../witness/cosign-with.js';

/** Most milliseconds between two publications while events come faster than one batch takes. */
const PUBLISH_EVERY = 1000;
/** Most publications side by side. */
const PUBLISH_AT_ONCE = 8;

/**
 * Seals beside the requests: every interval it empties the queue, tenant by tenant. Any number of processes may do so at
 * once; a tenant's log has one writer at a time.
 */
@Injectable()
export class Sealer {
  private readonly logger = new Logger(Sealer.name);
  private readonly task: PeriodicTask;
  /** Logs whose last checkpoint may not be published; null before the first look. */
  private unpublished: Set<number> | null = null;
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
    // After a crash between commit and publication the last checkpoint is still to be published.
    this.unpublished ??= new Set(await tenantsWithLogs(this.tools.pool));
    const stopped = await this.sealAll();
    const waiting = [...this.unpublished].filter((tenantId) => !stopped.has(tenantId));
    // Side by side: each may wait for witnesses.
    for (let at = 0; at < waiting.length && !this.task.isStopping; at += PUBLISH_AT_ONCE) {
      const some = waiting.slice(at, at + PUBLISH_AT_ONCE);
      await Promise.all(some.map((tenantId) => this.guarded(tenantId, () => this.publish(tenantId))));
    }
  }

  private async publish(tenantId: number): Promise<void> {
    this.unpublished?.add(tenantId);
    try {
      await publishCheckpoint(this.tools, tenantId);
    } catch (error) {
      if (!(error instanceof QuorumMissed)) throw error;
      this.hold(tenantId, error);
      return;
    }
    this.unpublished?.delete(tenantId);
    if (this.metrics.setHeld(tenantId, false)) this.logger.log(`Checkpoints of tenant ${tenantId} are published again`);
  }

  /** Sealing goes on: only what is shown to others waits for the witnesses. */
  private hold(tenantId: number, { message, isAlarming }: QuorumMissed): void {
    if (!this.metrics.setHeld(tenantId, true) && !isAlarming) return;
    const text = `The last checkpoint of tenant ${tenantId} is sealed, but not published: ${message}`;
    if (isAlarming) this.logger.error(text);
    else this.logger.warn(text);
  }

  /** Seals all that is queued now. @returns tenants that this went wrong for */
  private async sealAll(): Promise<ReadonlySet<number>> {
    const backlog = await this.metrics.observe(this.tools.pool);
    const stopped = new Set<number>();
    for (const { tenantId } of backlog)
      if (!(await this.guarded(tenantId, () => this.sealTenant(tenantId)))) stopped.add(tenantId);
    if (backlog.length > 0) await this.metrics.observe(this.tools.pool);
    return stopped;
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
      await this.publish(tenantId);
      published = performance.now();
      isPublished = true;
    }
    // With the others, once all are sealed.
    if (!isPublished) this.unpublished?.add(tenantId);
  }

  /** One tenant's trouble must not keep the others waiting. @returns whether there was none */
  private async guarded(tenantId: number, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      this.said.delete(tenantId);
      this.metrics.setRefused(tenantId, false);
      return true;
    } catch (error) {
      const { message, stack } = errorReport(error);
      this.metrics.setRefused(tenantId, error instanceof SealRefused);
      if (this.said.get(tenantId) === message) return false;
      this.said.set(tenantId, message);
      this.logger.error(`Sealing of tenant ${tenantId} stopped: ${message}`, stack);
      return false;
    }
  }
}
