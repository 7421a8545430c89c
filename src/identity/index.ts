export { type DemoTenant, makeDemoTenants } from './demo-tenants.js';
export { IdentityModule, type IdentitySettings } from './identity.module.js';
export type { Quota } from './rate-limiter.js';
export type { RateLimitSettings } from './rate-limits.js';
export { RequestGate } from './request-gate.js';
export { AUDITORS, READERS, Roles, WRITERS } from './roles.decorator.js';
export type { JwtSettings } from './tokens/token-verifier.js';
