export { BackgroundModule } from './background.module.js';
export type { PeriodicTask } from './periodic-task.js';
export { PeriodicTasks } from './periodic-tasks.js';
