import type { ConnectionOptions } from 'node:tls';
import { AddressError } from './address-error.js';
import { type AddressParameters, readParameters } from './address-parameters.js';
import { tlsOf } from './tls.js';

/** One server of an address. */
export interface DatabaseHost {
  /** Name or IP address; the folder of a unix socket where it begins with a slash. */
  host: string;
  port: number;
}

/** What an address such as `postgres://role:password@host:5432/database?sslmode=verify-full` says. */
export interface DatabaseAddress {
  /** In the order in which they are tried. */
  hosts: readonly DatabaseHost[];
  user: string;
  /** Undefined where the server needs none, as over a unix socket. */
  password: string | undefined;
  database: string;
  /** False for an open connection, undefined where the environment (PGSSLMODE) decides. */
  tls: ConnectionOptions | false | undefined;
  /** Whether a server must take writes to be connected to; the others are passed over. */
  mustTakeWrites: boolean;
  /** Whether a pooler such as PgBouncer gives out its connections transaction by transaction. */
  isPooled: boolean;
  bindsChannel: boolean;
  applicationName: string | undefined;
  /** Settings for the session as libpq's `options` has them, such as `-c search_path=public`. */
  options: string | undefined;
}

const FORM = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;
const EXAMPLE = 'postgres://role:password@host:5432/database';
const DEFAULT_PORT = 5432;

/**
 * Reads an address as libpq does: several hosts with ports of their own, and unix sockets, which a URL can't hold.
 *
 * @throws AddressError, which never repeats a part that may be a password
 */
export function parseAddress(text: string): DatabaseAddress {
  const [, userInfo = '', hostList = '', path = '', query = ''] = FORM.exec(text) ?? misread();
  const parameters = readParameters(query);
  const [user, password] = splitOnce(userInfo, ':').map(decoded);
  const found = {
    user: parameters.user ?? user,
    password: parameters.password ?? password,
    database: parameters.dbname ?? decoded(path),
    hosts: hostsOf(parameters.host ?? hostList, parameters.port, parameters.host !== undefined),
  };
  if (!found.user) throw new AddressError(`must name the role: ${EXAMPLE}`);
  if (!found.database) throw new AddressError(`must name the database: ${EXAMPLE}`);
  return { ...found, user: found.user, database: found.database, ...meaningOf(parameters, found.hosts) };
}

/** An address for people: its servers and database, without role and password. */
export function describeAddress(text: string): string {
  const { hosts, database } = parseAddress(text);
  return `${hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',')}/${database}`;
}

function meaningOf(parameters: AddressParameters, hosts: readonly DatabaseHost[]) {
  const isLocal = hosts.every(({ host }) => host.startsWith('/'));
  const target = parameters.target_session_attrs ?? (hosts.length > 1 ? 'read-write' : 'any');
  return {
    // A unix socket has no TLS, whatever is asked for.
    tls: isLocal ? (false as const) : tlsOf(parameters),
    mustTakeWrites: target !== 'any',
    isPooled: parameters.pgbouncer === 'true',
    bindsChannel: parameters.channel_binding === 'require' || parameters.channel_binding === 'prefer',
    applicationName: parameters.application_name,
    options: parameters.options,
  };
}

/** @param areWhole whether these are hosts alone, as the parameter has them, without ports and brackets */
function hostsOf(list: string, ports: string | undefined, areWhole: boolean): DatabaseHost[] {
  const portList = ports?.split(',') ?? [];
  const names = list.split(',').map((entry) => entry.trim());
  if (names.some((name) => name === '')) {
    throw new AddressError(`must name its host: ${EXAMPLE}, or ?host=/var/run/postgresql for a unix socket`);
  }
  if (portList.length > 1 && portList.length !== names.length)
    throw new AddressError(`names ${names.length} hosts and ${portList.length} ports; name one port, or one for each`);
  return names.map((entry, index) => {
    const [host, own] = areWhole ? [entry] : splitPort(entry);
    return { host, port: portNumber(portList[index] ?? portList[0] ?? own) };
  });
}

function splitPort(entry: string): [host: string, port?: string] {
  const [, bracketed, bare = '', port] = /^(?:\[([^\]]+)\]|([^:[\]\s]+))(?::(\d*))?$/.exec(entry) ?? [];
  if (bracketed === undefined && bare === '')
    throw new AddressError('has a host that is none; an IPv6 address stands in brackets: [2001:db8::7]:5432');
  return [bracketed ?? decoded(bare), port || undefined];
}

function portNumber(text: string | undefined): number {
  if (!text) return DEFAULT_PORT;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new AddressError('has a port that is none: it is a number from 1 to 65535');
  return port;
}

function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AddressError('has a % that begins no escape; write %25 for it, and %40 for @ in a password');
  }
}

function misread(): never {
  throw new AddressError(
    `must be an address like ${EXAMPLE}; in a password write %40 for @, %2F for /, %3F for ?, %23 for #`,
  );
}
