export { createLog } from './log.js';
export { type MetricsListener, serveMetrics } from './metrics-listener.js';
export { ObservabilityModule } from './observability.module.js';
export { observationHooks } from './request-observer.js';
export { ServiceLogger } from './service-logger.js';
export { ServiceMetrics } from './service-metrics.js';
export { startTracing, type Tracing } from './tracing.js';
export { StepCounter } from './step-counter.js';
