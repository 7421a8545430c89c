import { SetMetadata } from '@nestjs/common';

export const ROUTE_ROLES = 'waybill:route-roles';

/** Anyone of the tenant who may read. */
export const READERS = ['viewer', 'operator', 'admin', 'auditor'] as const;
/** Anyone of the tenant who may write. */
export const WRITERS = ['operator', 'admin'] as const;
/** Who may read the whole history, and start its verification. */
export const AUDITORS = ['auditor', 'admin'] as const;

/** The roles of which a caller needs one. Every route that isn't public has it. */
export const Roles = (...roles: readonly string[]) => SetMetadata(ROUTE_ROLES, roles);
