import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { PeriodicTask, type PeriodicWork } from './periodic-task.js';

/** Starts the periodic tasks of all modules with the application, and stops them before it ends. */
@Injectable()
export class PeriodicTasks implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly tasks: PeriodicTask<unknown>[] = [];

  /** For the constructor of whoever owns the work. */
  add<Result>(owner: string, work: PeriodicWork<Result>): PeriodicTask<Result> {
    const task = new PeriodicTask(work, new Logger(owner));
    this.tasks.push(task as PeriodicTask<unknown>);
    return task;
  }

  all(): readonly PeriodicTask<unknown>[] {
    return this.tasks;
  }

  onApplicationBootstrap(): void {
    for (const task of this.tasks) task.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.tasks.map((task) => task.stop()));
  }
}
