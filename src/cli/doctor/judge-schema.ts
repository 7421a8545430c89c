import type { Catalogue } from './catalogue.js';
import type { ExpectedSchema } from './expected-schema.js';
import { type Finding, fault, faultsOr, hint, ok } from './finding.js';

const AGAIN =
  'Find out who did it and what changed since (`waybill audit verify`), then put it back as the migration says.';
const BOOTSTRAP = 'Run migrations/bootstrap.sql again as an administrator; it puts the rights back.';
const SEARCH_PATH = /^search_path=pg_catalog, ?(pg_temp|"pg_temp")$/;
const TRIGGER_STATES: Readonly<Record<string, string>> = { D: 'disabled', R: 'enabled in replicas only' };

/** Who owns what. */
export function judgeOwnership({ relations, functions }: Catalogue): Finding[] {
  const ownerOf = (name: string): string => (name.startsWith('audit.') ? 'waybill_audit' : 'waybill_owner');
  const wrong = [...relations, ...functions]
    .filter(({ name, owner }) => owner !== ownerOf(name))
    .map(({ name, owner }) => `${name} belongs to ${owner}, not to ${ownerOf(name)}`);
  return faultsOr(
    'ownership',
    wrong,
    'As a superuser: ALTER TABLE (or FUNCTION) … OWNER TO ….',
    'Everything has its owner.',
  );
}

/** Every row of a tenant is behind row level security, for the owner too. */
export function judgeRowSecurity({ relations, policies }: Catalogue, expected: ExpectedSchema | null): Finding[] {
  const faults: string[] = [];
  for (const { name, kind, isTenants, rls, force, invoker } of relations) {
    const isTable = kind === 'r' || kind === 'p';
    if (isTable && isTenants && !rls) faults.push(`${name} has no row level security: every tenant sees all of it`);
    if (isTable && isTenants && rls && !force)
      faults.push(`${name} doesn't FORCE row level security: its owner sees all tenants`);
    if (kind === 'v' && !invoker) faults.push(`view ${name} is not security_invoker: it reads as its owner`);
  }
  const present = new Set(policies.map(({ table, name }) => `${table} ${name}`));
  for (const policy of expected?.policies ?? []) {
    if (!present.has(policy)) faults.push(`policy ${policy.split(' ')[1]} of ${policy.split(' ')[0]} is missing`);
  }
  const advice =
    'ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; or recreate the policy of the migration.';
  return faultsOr('row security', faults, advice, 'Forced on every table of tenants; all policies are there.');
}

/** The rules, the history and the audit trail are triggers: one that is off says nothing. */
export function judgeTriggers({ triggers }: Catalogue, expected: ExpectedSchema | null): Finding[] {
  const faults = triggers
    .filter(({ enabled }) => enabled in TRIGGER_STATES)
    .map(({ table, name, enabled }) => `trigger ${name} on ${table} is ${TRIGGER_STATES[enabled]}`);
  const present = new Map(triggers.map(({ table, name, enabled }) => [`${table} ${name}`, enabled]));
  for (const [table, wanted] of expected?.triggers ?? []) {
    for (const [name, when] of wanted) {
      const enabled = present.get(`${table} ${name}`);
      if (enabled === undefined) faults.push(`trigger ${name} on ${table} is missing`);
      else if (when === 'always' && enabled === 'O') faults.push(`trigger ${name} on ${table} no longer fires ALWAYS`);
    }
  }
  return faultsOr('triggers', faults, AGAIN, `All ${triggers.length} are there and enabled.`);
}

/** Functions are what the migrations made, find nothing by a search path, and are nobody's by default. */
export function judgeFunctions({ functions }: Catalogue, expected: ExpectedSchema | null): Finding[] {
  const changed: string[] = [];
  for (const [name, bodies] of expected?.functions ?? []) {
    const found = functions.filter((each) => each.name === name);
    if (found.length === 0) changed.push(`function ${name} is missing`);
    else if (!found.every(({ body }) => bodies.has(body)))
      changed.push(`function ${name} is not what the migrations made`);
  }
  const lost = functions.filter(({ path }) => !path || !SEARCH_PATH.test(path));
  const open = functions.filter(({ isPublic }) => isPublic);
  return [
    ...faultsOr('functions', changed, AGAIN, `All ${functions.length} are as the migrations made them.`),
    ...faultsOr(
      'search path',
      lost.map(({ name, path }) => `function ${name} has ${path ?? 'no search_path of its own'}`),
      'ALTER FUNCTION … SET search_path = pg_catalog, pg_temp;',
      'Every function has its own.',
    ),
    ...faultsOr(
      'public functions',
      open.map(({ name }) => `PUBLIC may execute ${name}`),
      'REVOKE EXECUTE ON FUNCTION … FROM PUBLIC;',
      'None.',
    ),
  ];
}

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
  if (connectsPublic) findings.push(fault('roles', 'Every role of the server may connect to this database', BOOTSTRAP));
  for (const { role, setting } of overrides) {
    const disarms = /^(session_replication_role=(?!origin)|row_security=off)/.test(setting);
    if (disarms)
      findings.push(
        fault('role settings', `${role} has ${setting}`, 'ALTER ROLE … RESET …; it switches triggers or policies off.'),
      );
    else findings.push(hint('role settings', `${role} has ${setting}`, 'Make sure that somebody wants it so.'));
  }
  return findings;
}

export function judgeGrants(missing: readonly string[], excessive: readonly string[]): Finding[] {
  return [
    ...faultsOr('grants', missing, 'GRANT it as the migration does.', 'The roles may do what the service does.'),
    ...faultsOr(
      'excessive grants',
      excessive,
      'REVOKE it: the service never does this.',
      'The app role may not write the audit trail.',
    ),
  ];
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
