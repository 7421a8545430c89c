export { AuditLogModule, type AuditLogSettings } from './audit-log.module.js';
export { AuditModule } from './audit.module.js';
export { EventDto, EventListDto } from './dto/event.dto.js';
export { type AuditEvent, type EventBody, EventReader, type StreamEvent } from './event-reader.js';
export { SealerMetrics } from './log/sealer-metrics.js';
export * from './tools.js';
