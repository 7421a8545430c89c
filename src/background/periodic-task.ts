import { errorReport } from '../common/index.js';

export interface PeriodicWork<Result> {
  /** Names the task in the metrics, such as `key-sweep`. */
  name: string;
  /** What the log says before the reason when a round fails, such as `Expired keys were not swept`. */
  failure: string;
  /** Milliseconds between the end of a round and the beginning of the next; a tenth more or less, at random. */
  interval: number;
  /**
   * The first round: with the start, or after a random part of the interval, so that processes that were started together
   * don't all come at once.
   */
  first: 'with-start' | 'within-interval';
  /** Whether one more round runs at the stop, for work that collects in memory. */
  endsWithRound?: boolean;
  /** One round. It ends early where it can once the task is stopping. */
  run: () => Promise<Result>;
}

/** What the metrics show of a task in this process. */
export interface PeriodicFigures {
  /** Rounds that ended well since the start. */
  rounds: number;
  failedRounds: number;
}

export interface TaskLog {
  warn(message: string): void;
  log(message: string): void;
}

/** Work that is done again and again beside the requests, one round at a time. */
export class PeriodicTask<Result = void> {
  private readonly counted: PeriodicFigures = { rounds: 0, failedRounds: 0 };
  private timer: NodeJS.Timeout | undefined;
  /** Settles with the last round that was asked for. */
  private last: Promise<unknown> = Promise.resolve();
  private stopping = false;
  /** The failure that the log tells of last, until a round ends well. */
  private said: string | undefined;

  constructor(
    private readonly work: PeriodicWork<Result>,
    private readonly log: TaskLog,
  ) {}

  get name(): string {
    return this.work.name;
  }

  get figures(): Readonly<PeriodicFigures> {
    return this.counted;
  }

  get isStopping(): boolean {
    return this.stopping;
  }

  start(): void {
    this.schedule(this.work.first === 'with-start' ? 0 : this.work.interval * Math.random());
  }

  /** No further rounds by schedule. Resolves when those that were begun or asked for are through. */
  async stop(): Promise<void> {
    const isFirst = !this.stopping;
    this.stopping = true;
    clearTimeout(this.timer);
    if (isFirst && this.work.endsWithRound) await settled(this.runNow());
    await this.last;
  }

  /** A round of its own, as soon as the present one is through. @returns what it came to @throws what it failed with */
  runNow(): Promise<Result> {
    const round = this.last.then(() => this.round());
    this.last = settled(round);
    return round;
  }

  private schedule(delay: number): void {
    this.timer = setTimeout(() => {
      // A failure is counted and logged by the round itself.
      void settled(this.runNow()).then(() => this.scheduleNext());
    }, delay);
    this.timer.unref();
  }

  private scheduleNext(): void {
    if (!this.stopping) this.schedule(this.work.interval * (0.9 + Math.random() / 5));
  }

  private async round(): Promise<Result> {
    try {
      const result = await this.work.run();
      this.counted.rounds += 1;
      if (this.said !== undefined) this.log.log(`No longer: ${this.said}`);
      this.said = undefined;
      return result;
    } catch (error) {
      this.counted.failedRounds += 1;
      this.tell(`${this.work.failure}: ${errorReport(error).message}`);
      throw error;
    }
  }

  /** A fault that lasts is logged once, not with every round. */
  private tell(message: string): void {
    if (message === this.said) return;
    this.said = message;
    this.log.warn(message);
  }
}

function settled(work: Promise<unknown>): Promise<unknown> {
  return work.catch(() => undefined);
}
