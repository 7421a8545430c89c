import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { errorReport } from '../common/index.js';

/** Something to do once a transaction has been committed, outside of it. */
export type AfterCommitTask = () => Promise<void>;

/**
 * Runs what transactions leave for the time after their COMMIT. The answer doesn't wait for it and can no longer be changed
 * by it: what it throws goes to the log. A stop of the service waits for it; a crash loses it.
 */
@Injectable()
export class AfterCommit implements BeforeApplicationShutdown, OnApplicationShutdown {
  private readonly logger = new Logger(AfterCommit.name);
  private readonly running = new Set<Promise<void>>();

  start(tasks: readonly AfterCommitTask[]): void {
    for (const task of tasks) {
      const run = this.run(task).finally(() => this.running.delete(run));
      this.running.add(run);
    }
  }

  /** Waits until everything that was started is through. */
  async settle(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running);
  }

  /** Once while requests may still come, and once when the last of them is through. */
  beforeApplicationShutdown(): Promise<void> {
    return this.settle();
  }

  onApplicationShutdown(): Promise<void> {
    return this.settle();
  }

  private async run(task: AfterCommitTask): Promise<void> {
    try {
      await task();
    } catch (error) {
      this.logger.error('Work after a commit failed; the change itself stands', errorReport(error).stack);
    }
  }
}
