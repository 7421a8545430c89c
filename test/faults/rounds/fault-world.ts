import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { KillPoint } from '../../../src/database/index.js';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { type OwnPostgres, startOwnPostgres } from '../../support/own-postgres.js';
import { type RealService, startRealService } from '../../support/real-service.js';
import { HANG_MS } from '../../support/waiting.js';
import { below, type Random } from '../storm-plan.js';
import type { PlannedFault } from './fault-plan.js';

const SEAL_INTERVAL_MS = 200;
const CRASH_PATIENCE_MS = 2_000;
const SETTINGS = {
  LOG_LEVEL: 'error',
  DATABASE_POOL_SIZE: '8',
  DATABASE_CONNECT_TIMEOUT: '2',
  DATABASE_STATEMENT_TIMEOUT: '5',
  DATABASE_LOCK_TIMEOUT: '3',
  SHUTDOWN_GRACE: '3',
  IDEMPOTENCY_LEASE: '1s',
};

/** So that reading what a round left takes as long after a thousand rounds as after the first. */
const INDEXES = `
  CREATE INDEX fault_orders ON waybill.orders ((metadata ->> 'faultKey'));
  CREATE INDEX fault_ledger ON simulated_provider.ledger ((metadata ->> 'waybill_order'));
  CREATE INDEX fault_keys ON waybill.idempotency_keys (idempotency_key);`;

const OF_SERVICES = `usename IN ('waybill_app', 'waybill_sealer')`;

/** Node's last line then. */
const ENDED_BY_EXCEPTION = /^Node\.js v/m;

interface Armed extends PlannedFault {
  seen: number;
  hasStruck: boolean;
}

/** Where one service runs after the other; null while it does not serve. */
interface Place {
  service: RealService;
  baseUrl: string | null;
}

export interface WorldOptions {
  /** Processes of the service. */
  services: number;
  /** So many of them have to serve when a round begins; the others may still be starting. */
  serving: number;
  /** For the services, such as the import of a planted bug. */
  nodeOptions?: readonly string[];
}

/** Services on one PostgreSQL, all real, and the hand that strikes them. Whatever it ends, it starts again. */
export class FaultWorld {
  /** How often each point was reached, and how often a fault struck there. */
  readonly reached: Record<string, number> = {};
  readonly struck: Record<string, number> = {};
  /** What Node said of exceptions that ended a service. */
  readonly crashes: string[] = [];
  private armed: Armed[] = [];
  private timers: NodeJS.Timeout[] = [];
  private readonly places: Place[] = [];
  private pending: Promise<void>[] = [];
  private closing = false;
  private postgresWork: Promise<void> = Promise.resolve();

  private constructor(
    readonly postgres: OwnPostgres,
    readonly checkpointDir: string,
    private readonly options: WorldOptions,
  ) {}

  static async start(options: WorldOptions): Promise<FaultWorld> {
    const world = new FaultWorld(
      await startOwnPostgres({ durable: true }),
      await mkdtemp(join(tmpdir(), 'waybill-fault-checkpoints-')),
      options,
    );
    try {
      await world.postgres.query(INDEXES);
      for (let at = 0; at < options.services; at += 1) world.launch(at);
      await world.untilEnoughServe();
      return world;
    } catch (error) {
      await world.close();
      throw error;
    }
  }

  /** Addresses and keys of the services and of whoever verifies what they sealed. */
  private readonly signingKey = generateSigningKey();
  get auditEnv(): Record<string, string> {
    return {
      DATABASE_URL: this.postgres.appUrl,
      SEALER_DATABASE_URL: this.postgres.sealerUrl,
      AUDIT_SIGNING_KEY: this.signingKey,
      AUDIT_ORIGIN: 'audit.faults',
      AUDIT_CHECKPOINT_DIR: this.checkpointDir,
      AUDIT_SEAL_INTERVAL: `${SEAL_INTERVAL_MS}ms`,
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
    for (const planned of faults) {
      const fault = { ...planned, seen: 0, hasStruck: false };
      if (fault.delayMs === 0) this.armed.push(fault);
      else this.timers.push(setTimeout(() => this.begin(fault), fault.delayMs));
    }
  }

  private begin(fault: Armed): void {
    if (fault.point !== 'any time') return void this.armed.push(fault);
    const serving = this.places.flatMap(({ baseUrl }, at) => (baseUrl === null ? [] : at));
    void this.strike(fault, serving[below(Math.random, serving.length)] ?? 0);
  }

  /** Sealing comes after the requests: what is to strike there gets its chance. */
  async untilSealed(): Promise<void> {
    const isWaiting = (): boolean => this.armed.some(({ point, hasStruck }) => point.startsWith('seal') && !hasStruck);
    for (const until = Date.now() + 3 * SEAL_INTERVAL_MS; isWaiting() && Date.now() < until;) await sleep(20);
  }

  /** No fault strikes from now on; returns when everything is over and enough services serve. */
  async settle(): Promise<void> {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers = [];
    this.armed = [];
    await Promise.all(this.pending);
    this.pending = [];
    await this.untilDatabaseServes();
    await this.untilEnoughServe();
  }

  async close(): Promise<void> {
    this.closing = true;
    for (const timer of this.timers) clearTimeout(timer);
    await Promise.allSettled(this.pending);
    await Promise.all(this.places.map(({ service }) => service.kill()));
    await this.postgres.discard();
    await rm(this.checkpointDir, { recursive: true, force: true });
  }

  private launch(at: number): void {
    const service = startRealService({
      env: { ...SETTINGS, ...this.auditEnv },
      nodeOptions: this.options.nodeOptions,
      onKillPoint: (point) => this.onPoint(point, at),
    });
    this.places[at] = { service, baseUrl: null };
    void this.watch(at, service);
  }

  /** Notes where a service answers, for as long as it lives, and starts another one after it. */
  private async watch(at: number, service: RealService): Promise<void> {
    const baseUrl = await service.baseUrl(HANG_MS).catch(() => null);
    if (this.places[at]?.service === service) this.places[at].baseUrl = baseUrl;
    await service.ended;
    if (ENDED_BY_EXCEPTION.test(service.errors())) this.crashes.push(service.errors());
    if (!this.closing) this.launch(at);
  }

  private async untilDatabaseServes(): Promise<void> {
    for (const until = Date.now() + HANG_MS; ; await sleep(20)) {
      const failure = await this.postgres.query('SELECT').then(
        () => null,
        (error: Error) => error,
      );
      if (failure === null) return;
      if (Date.now() > until) throw failure;
    }
  }

  private async untilEnoughServe(): Promise<void> {
    const serving = (): number => this.places.filter(({ baseUrl }) => baseUrl !== null).length;
    for (const until = Date.now() + HANG_MS; serving() < this.options.serving;) {
      if (Date.now() > until) throw new Error(`a service doesn't start: ${this.places.map(stateOf).join('; ')}`);
      await sleep(20);
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
        return both(this.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${OF_SERVICES}`));
      case 'crash backend':
        return both(this.oneByOne(() => this.crashBackend().catch(() => undefined)));
      case 'restart postgres':
        return { now: sleep(20), later: this.restartPostgres() };
      case 'kill postgres':
        return { now: sleep(20), later: this.restartPostgres('SIGKILL') };
      case 'pause postgres': {
        return { now: sleep(5), later: this.pausePostgres(pauseMs) };
      }
      default:
        throw new Error(`unknown action ${String(action satisfies never)}`);
    }
  }

  private restartPostgres(signal?: 'SIGKILL'): Promise<void> {
    return this.oneByOne(async () => {
      if (signal) await this.postgres.signal(signal);
      await this.postgres.stop();
      await this.postgres.start();
    });
  }

  private pausePostgres(pauseMs: number): Promise<void> {
    return this.oneByOne(async () => {
      await this.postgres.signal('SIGSTOP');
      await sleep(pauseMs);
      await this.postgres.signal('SIGCONT');
    });
  }

  /** Two faults may both stop PostgreSQL. Backends that are paused when their postmaster dies would stay so for ever. */
  private oneByOne(work: () => Promise<void>): Promise<void> {
    this.postgresWork = this.postgresWork.then(work);
    return this.postgresWork;
  }

  private async untilGone(service: RealService | undefined): Promise<void> {
    await service?.ended;
  }

  /** A backend that dies makes PostgreSQL end all others, this connection too, and recover from its log. */
  private async crashBackend(): Promise<void> {
    const client = new Client({ connectionString: this.postgres.superuserUrl });
    client.on('error', () => undefined);
    await client.connect();
    try {
      const ended = once(client, 'end');
      const { rows } = await client.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE ${OF_SERVICES} ORDER BY state = 'active' DESC, random() LIMIT 1`,
      );
      if (!rows[0]) return;
      process.kill(rows[0].pid, 'SIGKILL');
      // One that was leaving by itself takes nobody along.
      await Promise.race([ended, sleep(CRASH_PATIENCE_MS)]);
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  /** The database may be away because of another fault of the round. */
  private async sql(text: string): Promise<void> {
    await this.postgres.query(text).catch(() => []);
  }
}

function stateOf({ service: { child, log, errors }, baseUrl }: Place): string {
  const end = child.exitCode ?? child.signalCode ?? 'runs';
  return `${child.pid} ${end}, at ${baseUrl}, said ${JSON.stringify(log.at(-1))} ${errors()}`;
}

function both(effect: Promise<void>): { now: Promise<void>; later: Promise<void> } {
  const settled = effect.catch(() => undefined);
  return { now: settled, later: settled };
}
