/** Roles that Waybill itself knows; a workflow may bring more. */
export const ROLES = ['viewer', 'operator', 'admin', 'auditor'] as const;
