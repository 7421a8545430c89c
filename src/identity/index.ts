export { type DemoTenant, makeDemoTenants } from './demo-tenants.js';
export { IdentityModule } from './identity.module.js';
export { AUDITORS, READERS, Roles, WRITERS } from './roles.decorator.js';
