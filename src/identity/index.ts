export { type DemoTenant, makeDemoTenants } from './demo-tenants.js';
export { IdentityModule } from './identity.module.js';
export { READERS, Roles, WRITERS } from './roles.decorator.js';
export { SystemUsers, SystemUsersModule } from './system-users.js';
