import type { Catalogue } from './catalogue.js';
import { type Finding, fault, faultsOr, hint, ok } from './finding.js';

const BOOTSTRAP = 'Run migrations/bootstrap.sql again as an administrator; it puts the rights back.';

export function judgeRoles({ roles, overrides, connectsPublic }: Catalogue): Finding[] {
  const faults = roles.flatMap(({ name, powers, memberOf }) => [
    ...powers.map((power) => `${name} has ${power}`),
    ...memberOf
      .filter((role) => !(name === 'waybill_owner' && role === 'waybill_audit'))
      .map((role) => `${name} is a member of ${role}`),
  ]);
  const findings = faultsOr(
    'roles',
    faults,
    'ALTER ROLE … NOSUPERUSER NOBYPASSRLS …; REVOKE … FROM …;',
    'None can do what it must not.',
  );
  if (roles.some(({ name, isLimited }) => name === 'waybill_app' && !isLimited)) {
    findings.push(hint('roles', 'waybill_app may take every connection that the server has', BOOTSTRAP));
  }
  if (connectsPublic) findings.push(fault('roles', 'Every role of the server may connect to this database', BOOTSTRAP));
  for (const { role, setting } of overrides) {
    const disarms = /^(session_replication_role=(?!origin)|row_security=off)/.test(setting);
    if (disarms)
      findings.push(
        fault('role settings', `${role} has ${setting}`, 'ALTER ROLE … RESET …; it switches triggers or policies off.'),
      );
    else
      findings.push(
        hint(
          'role settings',
          `${role} has ${setting}`,
          'Make sure that somebody wants it so: a role can do this to itself. ALTER ROLE … RESET …',
        ),
      );
  }
  return findings;
}

/** pg_dump stops at tables that hide rows from it. */
export function judgeBackups({ dumpers }: Catalogue): Finding {
  const dedicated = dumpers.filter(({ isSuperuser }) => !isSuperuser).map(({ name }) => name);
  if (dedicated.length > 0) return ok('backup', `Can dump this database: ${dedicated.join(', ')}.`);
  return hint(
    'backup',
    `No role but superusers (${dumpers.map(({ name }) => name).join(', ') || 'none'}) can dump tables with forced row security`,
    'CREATE ROLE waybill_backup LOGIN BYPASSRLS; GRANT pg_read_all_data TO waybill_backup; see docs/operating.md.',
  );
}
