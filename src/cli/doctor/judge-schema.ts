import type { SchemaKind } from '../../database/schema/schema-object.js';
import type { Catalogue } from './catalogue.js';
import type { Comparison } from './compare-schema.js';
import { type Finding, faultsOr, hint, unknown } from './finding.js';

const AGAIN =
  'Find out who did it and what changed since (`waybill audit verify`), then put it back as migrations/schema says.';
const SEARCH_PATH = /^search_path=pg_catalog, ?(pg_temp|"pg_temp")$/;
const TRIGGER_STATES: Readonly<Record<string, string>> = { D: 'disabled', R: 'enabled in replicas only' };
const NAMED_AT_MOST = 20;

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

/** Tables, what holds for their values, and views. */
export function judgeTables(comparison: Comparison): Finding[] {
  const kinds: SchemaKind[] = ['schema', 'default privileges', 'domain', 'type', 'sequence', 'table', 'view'];
  const faults = [...kinds, 'constraint' as const, 'index' as const].flatMap((kind) => [
    ...comparison.missing(kind).map((name) => `${kind} ${name} is missing`),
    ...comparison
      .changed(kind)
      .filter((name) => !isOfAddedState(comparison, kind, name))
      .map((name) => `${kind} ${name} is not what the migrations made`),
  ]);
  const rules = [...comparison.missing('row'), ...comparison.changed('row')];
  return [
    ...faultsOr('tables', faults, AGAIN, `All ${comparison.wanted('table').length} are as the migrations made them.`),
    ...rules.map((name) =>
      hint('transitions', `${name} is not what the migrations made`, 'Make sure that somebody wants it so.'),
    ),
  ];
}

/** `waybill.add_state` states the check of a machine's states anew, for an extension. */
function isOfAddedState({ others }: Comparison, kind: SchemaKind, name: string): boolean {
  return kind === 'constraint' && name.includes('_status_check on ') && others.some((other) => other.kind === 'row');
}

/** Every row of a tenant is behind row level security, for the owner too. */
export function judgeRowSecurity({ relations }: Catalogue, comparison: Comparison | null): Finding[] {
  const faults: string[] = [];
  const secured = new Set(comparison?.wanted('row security'));
  for (const { name, kind, isTenants, rls, force, invoker } of relations) {
    const isSecured = (kind === 'r' || kind === 'p') && (isTenants || secured.has(name));
    if (isSecured && !rls) faults.push(`${name} has no row level security: every tenant sees all of it`);
    if (isSecured && rls && !force) faults.push(`${name} doesn't FORCE row level security: its owner sees all tenants`);
    if (kind === 'v' && !invoker) faults.push(`view ${name} is not security_invoker: it reads as its owner`);
  }
  const nameOf = (policy: string): string => `policy ${policy.replace(' on ', ' of ')}`;
  faults.push(
    ...(comparison?.missing('policy') ?? []).map((policy) => `${nameOf(policy)} is missing`),
    ...(comparison?.changed('policy') ?? []).map((policy) => `${nameOf(policy)} is not what the migrations made`),
  );
  const advice =
    'ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; or recreate the policy as migrations/schema has it.';
  return faultsOr('row security', faults, advice, 'Forced on every table of tenants; all policies are there.');
}

/** The rules, the history and the audit trail are triggers: one that is off says nothing. */
export function judgeTriggers({ triggers }: Catalogue, comparison: Comparison | null): Finding[] {
  const off = triggers.filter(({ enabled }) => enabled in TRIGGER_STATES);
  const faults = off.map(({ table, name, enabled }) => `trigger ${name} on ${table} is ${TRIGGER_STATES[enabled]}`);
  const missing = comparison?.missing('trigger') ?? [];
  const said = new Set([...missing, ...off.map(({ table, name }) => `${name} on ${table}`)]);
  faults.push(
    ...missing.map((name) => `trigger ${name} is missing`),
    ...(comparison?.changed('trigger') ?? []).map((name) => `trigger ${name} is not what the migrations made`),
    ...(comparison?.missing('firing') ?? [])
      .filter((name) => !said.has(name))
      .map((name) => `trigger ${name} no longer fires ALWAYS`),
  );
  return faultsOr('triggers', faults, AGAIN, `All ${triggers.length} are there and enabled.`);
}

/** Functions are what the migrations made, find nothing by a search path, and are nobody's by default. */
export function judgeFunctions({ functions }: Catalogue, comparison: Comparison | null): Finding[] {
  const changed = [
    ...(comparison?.missing('function') ?? []).map((name) => `function ${withoutTypes(name)} is missing`),
    ...(comparison?.changed('function') ?? []).map(
      (name) => `function ${withoutTypes(name)} is not what the migrations made`,
    ),
  ];
  const lost = functions.filter(({ path }) => !path || !SEARCH_PATH.test(path));
  const open = functions.filter(({ isPublic }) => isPublic);
  const goodNews = `All ${comparison?.wanted('function').length} are as the migrations made them.`;
  return [
    ...(comparison ? faultsOr('functions', changed, AGAIN, goodNews) : []),
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

/** @param forbidden what the app role may do that no table may allow it, as sentences */
export function judgeGrants(comparison: Comparison | null, forbidden: readonly string[]): Finding[] {
  const sentence = (grant: string, may: string): string => withoutTypes(grant.replace(' ', ` ${may} `));
  const missing = (comparison?.missing('grant') ?? []).map((grant) => sentence(grant, 'may not'));
  const excessive = comparison ? excessiveGrants(comparison).map((grant) => sentence(grant, 'may')) : [];
  return [
    ...(comparison
      ? faultsOr('grants', missing, 'GRANT it as migrations/schema does.', 'The roles may do what the service does.')
      : []),
    ...faultsOr(
      'excessive grants',
      [...new Set([...excessive, ...forbidden])],
      'REVOKE it: the service never does this.',
      'The app role may write only what the service writes.',
    ),
  ];
}

/** More than reading what is Waybill's, or deleting what is an extension's. */
function excessiveGrants({ others, wanted }: Comparison): string[] {
  const own = new Set(
    (['schema', 'domain', 'type', 'sequence', 'table', 'view', 'function'] as const).flatMap((kind) =>
      wanted(kind).map((name) => `${kind} ${name}`),
    ),
  );
  return others
    .filter(({ kind }) => kind === 'grant')
    .filter(({ name, of }) => {
      const [role = '', privilege = ''] = name.split(' ');
      const isServices = role === 'waybill_app' || role === 'PUBLIC';
      return isServices && (own.has(of) ? privilege !== 'SELECT' : privilege === 'DELETE' || privilege === 'TRUNCATE');
    })
    .map(({ name }) => name);
}

/** What no step of Waybill made is held against general rules only, and that is said. */
export function judgeOthers({ others }: Comparison): Finding[] {
  const silent: ReadonlySet<SchemaKind> = new Set(['comment', 'settings', 'firing', 'row security']);
  const whole = new Set(others.map(({ kind, name }) => `${kind} ${name}`));
  const named = others
    .filter(({ kind, name, of }) => !silent.has(kind) && (`${kind} ${name}` === of || !whole.has(of)))
    .map(({ kind, name }) => `${kind} ${withoutTypes(name)}`);
  if (named.length === 0) return [];
  const rest = named.length > NAMED_AT_MOST ? ` and ${named.length - NAMED_AT_MOST} more` : '';
  const detail = `No step of Waybill made these, so what they do wasn't judged: ${named.slice(0, NAMED_AT_MOST).join(', ')}${rest}`;
  return [unknown('others', detail, 'Compare them with the extension that they are of.')];
}

/** A function's name without the types of its arguments. */
function withoutTypes(name: string): string {
  return name.replace(/(?<=\w)\(.*\)/, '');
}
