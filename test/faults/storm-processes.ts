import { setTimeout as sleep } from 'node:timers/promises';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { below, type Random } from './storm-plan.js';

/** Longest that a process may take to answer what it accepted, as an orchestrator would have it. */
const DRAIN_MS = 3000;

/** Service processes of which one is ended now and then, and started again. */
export class RestlessProcesses {
  private readonly places: (ServiceProcess | null)[];
  private stopped = false;
  private restless: Promise<void> = Promise.resolve();
  restarts = 0;

  private constructor(
    private readonly databaseUrl: string,
    private readonly random: Random,
    private readonly env: Record<string, string>,
    processes: ServiceProcess[],
  ) {
    this.places = processes;
  }

  static async start(
    databaseUrl: string,
    random: Random,
    count: number,
    env: Record<string, string> = {},
  ): Promise<RestlessProcesses> {
    const starting = Array.from({ length: count }, () => startServiceProcess({ databaseUrl, env }));
    return new RestlessProcesses(databaseUrl, random, env, await Promise.all(starting));
  }

  /** Address of any process that runs, as far as we know. */
  address(random: Random): string | null {
    const running = this.places.filter((place) => place !== null);
    return running[below(random, running.length)]?.baseUrl ?? null;
  }

  /** Ends a random process every so often, most often without warning. */
  beRestless(pauseMs: number): void {
    this.restless = this.restartAgainAndAgain(pauseMs);
  }

  /** Ends a random process and starts it again, once those are back that were ended before. */
  restart(): Promise<void> {
    this.restless = this.restless.then(() => this.restartOne());
    return this.restless;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.restless;
    await Promise.all(this.places.map((place) => place?.kill('SIGTERM', DRAIN_MS)));
  }

  private async restartAgainAndAgain(pauseMs: number): Promise<void> {
    while (!this.stopped) {
      await sleep(pauseMs * (0.5 + this.random()));
      if (this.stopped) return;
      await this.restartOne();
    }
  }

  private async restartOne(): Promise<void> {
    const index = below(this.random, this.places.length);
    const process = this.places[index];
    this.places[index] = null;
    await process?.kill(this.random() < 0.75 ? 'SIGKILL' : 'SIGTERM', DRAIN_MS);
    this.places[index] = await startServiceProcess({ databaseUrl: this.databaseUrl, env: this.env });
    this.restarts += 1;
  }
}
