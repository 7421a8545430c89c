import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KillPoint } from '../../../src/database/index.js';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { type OwnPostgres, startOwnPostgres } from '../../support/own-postgres.js';
import { type RealService, startRealService } from '../../support/real-service.js';
import { below, type Random } from '../storm-plan.js';
import type { PlannedFault } from './fault-plan.js';

const SERVICES = 2;
const START_PATIENCE_MS = 120_000;
const SETTINGS = {
  LOG_LEVEL: 'fatal',
  DATABASE_POOL_SIZE: '8',
  DATABASE_CONNECT_TIMEOUT: '2',
  DATABASE_STATEMENT_TIMEOUT: '5',
  DATABASE_LOCK_TIMEOUT: '3',
  SHUTDOWN_GRACE: '3',
  IDEMPOTENCY_LEASE: '2s',
};

interface Armed extends PlannedFault {
  seen: number;
  hasStruck: boolean;
}

/** Two services on one PostgreSQL, all real, and the hand that strikes them. Whatever it ends, it starts again. */
export class FaultWorld {
  /** How often each point was reached, and how often a fault struck there. */
  readonly reached: Record<string, number> = {};
  readonly struck: Record<string, number> = {};
  private armed: Armed[] = [];
  private timers: NodeJS.Timeout[] = [];
  private readonly places: { service: RealService; baseUrl: string | null }[] = [];
  private pending: Promise<void>[] = [];
  private closing = false;
  private restarting: Promise<void> = Promise.resolve();

  private constructor(
    readonly postgres: OwnPostgres,
    private readonly checkpointDir: string,
    private readonly nodeOptions: readonly string[],
  ) {}

  /** @param nodeOptions for the services, such as the import of a planted bug */
  static async start(nodeOptions: readonly string[] = []): Promise<FaultWorld> {
    const world = new FaultWorld(
      await startOwnPostgres({ durable: true }),
      await mkdtemp(join(tmpdir(), 'waybill-fault-checkpoints-')),
      nodeOptions,
    );
    for (let at = 0; at < SERVICES; at += 1) world.launch(at);
    await world.untilAllServe();
    return world;
  }

  /** Addresses and keys of the services and of whoever verifies what they sealed. */
  readonly sealIntervalMs = 200;
  private readonly signingKey = generateSigningKey();
  get auditEnv(): Record<string, string> {
    return {
      DATABASE_URL: this.postgres.appUrl,
      SEALER_DATABASE_URL: this.postgres.sealerUrl,
      AUDIT_SIGNING_KEY: this.signingKey,
      AUDIT_CHECKPOINT_DIR: this.checkpointDir,
      AUDIT_SEAL_INTERVAL: `${this.sealIntervalMs}ms`,
    };
  }

  get apiKey(): string {
    return this.postgres.tenants[0]?.keys.operator ?? '';
  }

  /** Where a service answers, as far as anybody knows; null when none runs. */
  address(random: Random): string | null {
    const running = this.places.flatMap(({ baseUrl }) => baseUrl ?? []);
    return running[below(random, running.length)] ?? null;
  }

  arm(faults: readonly PlannedFault[]): void {
    this.armed = faults.map((fault) => ({ ...fault, seen: 0, hasStruck: false }));
    for (const fault of this.armed) {
      if (fault.point !== 'any time') continue;
      this.timers.push(setTimeout(() => void this.strike(fault, below(Math.random, SERVICES)), fault.delayMs));
    }
  }

  /** No fault strikes from now on; returns when everything runs again. */
  async settle(): Promise<void> {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers = [];
    this.armed = [];
    await Promise.all(this.pending);
    this.pending = [];
    await this.untilAllServe();
  }

  async close(): Promise<void> {
    await this.settle();
    this.closing = true;
    await Promise.all(this.places.map(({ service }) => service.kill()));
    await this.postgres.discard();
    await rm(this.checkpointDir, { recursive: true, force: true });
  }

  private launch(at: number): void {
    const service = startRealService({
      env: { ...SETTINGS, ...this.auditEnv },
      nodeOptions: this.nodeOptions,
      onKillPoint: (point) => this.onPoint(point, at),
    });
    this.places[at] = { service, baseUrl: null };
    void this.watch(at, service);
  }

  /** Notes where a service answers, for as long as it lives, and starts another one after it. */
  private async watch(at: number, service: RealService): Promise<void> {
    const baseUrl = await Promise.race([service.baseUrl().catch(() => null), service.ended.then(() => null)]);
    if (this.places[at]?.service === service) this.places[at].baseUrl = baseUrl;
    await service.ended;
    if (!this.closing) this.launch(at);
  }

  private async untilAllServe(): Promise<void> {
    for (const until = Date.now() + START_PATIENCE_MS; this.places.some(({ baseUrl }) => baseUrl === null);) {
      if (Date.now() > until)
        throw new Error(`a service doesn't start: ${this.places.map((p) => p.service.errors()).join()}`);
      await sleep(50);
    }
  }

  private async onPoint(point: KillPoint, at: number): Promise<void> {
    this.reached[point] = (this.reached[point] ?? 0) + 1;
    for (const fault of this.armed) {
      if (fault.point !== point || fault.hasStruck) continue;
      fault.seen += 1;
      if (fault.seen === fault.occurrence) await this.strike(fault, at);
    }
  }

  private strike(fault: Armed, at: number): Promise<void> {
    fault.hasStruck = true;
    const name = `${fault.point}: ${fault.action}`;
    this.struck[name] = (this.struck[name] ?? 0) + 1;
    const { now, later } = this.effects(fault, at);
    this.pending.push(later);
    return now;
  }

  /** What has to have happened before the request goes on, and what goes on beside it. */
  private effects({ action, pauseMs }: PlannedFault, at: number): { now: Promise<void>; later: Promise<void> } {
    const service = this.places[at]?.service;
    const done = Promise.resolve();
    switch (action) {
      case 'kill service':
        service?.child.kill('SIGKILL');
        return { now: done, later: this.untilGone(service) };
      case 'end service':
        service?.child.kill('SIGTERM');
        return { now: done, later: this.untilGone(service) };
      case 'pause service': {
        service?.child.kill('SIGSTOP');
        const later = sleep(pauseMs).then(() => void service?.child.kill('SIGCONT'));
        return { now: done, later };
      }
      case 'end backends':
        return both(this.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'waybill_app'`));
      case 'crash backend':
        return both(this.crashBackend());
      case 'restart postgres':
        return { now: sleep(20), later: this.restartPostgres() };
      case 'pause postgres': {
        return { now: sleep(5), later: this.pausePostgres(pauseMs) };
      }
      default:
        throw new Error(`unknown action ${String(action satisfies never)}`);
    }
  }

  /** Two faults of a round may both restart it: one after the other. */
  private restartPostgres(): Promise<void> {
    this.restarting = this.restarting.then(() => this.postgres.stop()).then(() => this.postgres.start());
    return this.restarting;
  }

  /** A server that another fault has ended has nothing to pause. */
  private async pausePostgres(pauseMs: number): Promise<void> {
    const isPaused = await this.postgres.signal('SIGSTOP').then(
      () => true,
      () => false,
    );
    if (!isPaused) return;
    await sleep(pauseMs);
    await this.postgres.signal('SIGCONT');
  }

  private async untilGone(service: RealService | undefined): Promise<void> {
    await service?.ended;
  }

  /** A backend that dies makes PostgreSQL end all others and recover from its log. */
  private async crashBackend(): Promise<void> {
    const [backend] = await this.postgres.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE usename = 'waybill_app' ORDER BY state = 'active' DESC LIMIT 1`,
    );
    if (backend) process.kill(backend.pid, 'SIGKILL');
  }

  /** The database may be away because of another fault of the round. */
  private async sql(text: string): Promise<void> {
    await this.postgres.query(text).catch(() => []);
  }
}

function both(effect: Promise<void>): { now: Promise<void>; later: Promise<void> } {
  const settled = effect.catch(() => undefined);
  return { now: settled, later: settled };
}
