export { closeConnectionsWhenDraining, Draining } from './draining.js';
export { HealthModule } from './health.module.js';
