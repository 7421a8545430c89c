export { CallRecoverer, type RecovererFigures } from './call-recoverer.js';
export {
  type ExternalWork,
  type ExternalWorkResumer,
  ResumesExternalWork,
  type ResumedWork,
  type Settlement,
  type StartedCall,
  type UnfinishedCall,
} from './external-work.js';
export { Idempotent } from './idempotent.decorator.js';
export type { IdempotentOptions } from './idempotent-options.js';
export { IdempotencyModule } from './idempotency.module.js';
export { KeySweeper, type SweeperFigures } from './key-sweeper.js';
export { idempotencyKeyReused } from './idempotency.errors.js';
export { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';
export { publishIdempotencyPolicy } from './publish-policy.js';
export { sweepExpiredKeys, type TenantSweep } from './sweep.js';
