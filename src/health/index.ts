export { Draining, drainingHooks } from './draining.js';
export { HealthModule } from './health.module.js';
