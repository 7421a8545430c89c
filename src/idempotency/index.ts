export { Idempotent, type IdempotentOptions } from './idempotent.decorator.js';
export { IdempotencyModule } from './idempotency.module.js';
export { type IdempotencyPolicy } from './policy.js';
