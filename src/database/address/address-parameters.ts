import { AddressError } from './address-error.js';

/** Parameters behind the `?` of an address that mean something here; named as libpq names them. */
const KNOWN = [
  'host',
  'port',
  'dbname',
  'user',
  'password',
  'application_name',
  'options',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'channel_binding',
  'target_session_attrs',
  'gssencmode',
  'load_balance_hosts',
  'pgbouncer',
] as const;

type Parameter = (typeof KNOWN)[number];
export type AddressParameters = Partial<Record<Parameter, string>>;

/** Where others than Waybill's own words are taken. */
const VALUES: Partial<Record<Parameter, { taken: readonly string[]; otherwise: string }>> = {
  sslmode: {
    taken: ['disable', 'require', 'verify-ca', 'verify-full', 'no-verify'],
    otherwise: 'The driver never falls back from one to the other',
  },
  channel_binding: { taken: ['disable', 'prefer', 'require'], otherwise: 'Nothing else is known' },
  target_session_attrs: {
    taken: ['read-write', 'primary', 'any'],
    otherwise: 'Waybill writes, so a standby is of no use to it',
  },
  gssencmode: { taken: ['disable', 'prefer'], otherwise: 'The driver knows no GSSAPI encryption; use sslmode' },
  load_balance_hosts: { taken: ['disable'], otherwise: 'One server takes writes; hosts are tried in their order' },
  pgbouncer: { taken: ['true', 'false'], otherwise: 'It says whether a pooler is in between' },
};

/** What is written elsewhere here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  connect_timeout: 'Set DATABASE_CONNECT_TIMEOUT instead',
  statement_timeout: 'Set DATABASE_STATEMENT_TIMEOUT instead',
  lock_timeout: 'Set DATABASE_LOCK_TIMEOUT instead',
  pool_max_conns: 'Set DATABASE_POOL_SIZE instead',
  connection_limit: 'Set DATABASE_POOL_SIZE instead',
  schema: 'Waybill’s schemas have their names; leave it out',
  ssl: 'Write sslmode=require, verify-full or disable',
  sslcrl: 'Revocation lists are not read; leave it out',
  sslpassword: 'Give sslkey a file without a passphrase',
  passfile: 'Write the password into the address',
  service: 'Write the address out',
  hostaddr: 'Write the IP address as the host',
};

/** @throws AddressError that names the parameter, and what to write */
export function readParameters(query: string): AddressParameters {
  const parameters: AddressParameters = {};
  for (const [name, value] of new URLSearchParams(query.replaceAll('+', '%2B'))) {
    if (!isKnown(name)) {
      const advice = ELSEWHERE[name] ?? `Leave it out; known are ${KNOWN.join(', ')}`;
      throw new AddressError(`has the parameter ${name.slice(0, 40)}, which means nothing here. ${advice}`);
    }
    if (parameters[name] !== undefined) throw new AddressError(`has the parameter ${name} twice`);
    const values = VALUES[name];
    if (values && !values.taken.includes(value)) {
      throw new AddressError(
        `has a ${name} that is not one of ${values.taken.join(', ')}. ${values.otherwise}; write one of these`,
      );
    }
    parameters[name] = value;
  }
  return parameters;
}

function isKnown(name: string): name is Parameter {
  return (KNOWN as readonly string[]).includes(name);
}
