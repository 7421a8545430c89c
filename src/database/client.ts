import pg, { type ClientBase } from 'pg';
import { type DatabaseAddress, type DatabaseHost, parseAddress } from './address/database-address.js';
import { pinnedOptions, pooledStartup, type TimeLimits, transactionSettings } from './session-settings.js';
import type { AnyStatement } from './statement.js';
import { VALUE_TYPES } from './value-types.js';

/** How a connection is made. */
export interface ConnectionConfig extends TimeLimits {
  /** The address, see `parseAddress`. */
  connectionString: string;
  application_name?: string;
  /** Longest wait for a connection to one server, in milliseconds. */
  connectionTimeoutMillis?: number;
  /** Longest wait for an answer, in milliseconds; the connection is given up then. */
  query_timeout?: number;
  pipeline?: boolean;
  keepAlive?: boolean;
}

interface StartupConfig {
  user: string;
  database: string;
  application_name?: string;
  [parameter: string]: string | undefined;
}

/** pg's own, not in its types. */
interface PgClient {
  getStartupConf(): StartupConfig;
  connectionParameters: { host: string; port: number };
}
const NO_ADDRESS: ConnectionConfig = { connectionString: '' };
const ownStartup = (pg.Client.prototype as unknown as PgClient).getStartupConf;

/** By address, the server that took writes last: it is tried first. */
const lastChosen = new Map<string, DatabaseHost>();

/**
 * A connection that may break at any time. Whatever it was doing fails by itself; its `error` event comes as well, also in the
 * moments in which neither a pool nor TypeORM listens, and one that nobody hears would end the process.
 *
 * It takes addresses as libpq does, with several servers; whatever fails while it connects is marked `whileConnecting`. Its
 * session has the pinned settings.
 */
export class SteadyClient extends pg.Client {
  private readonly address: DatabaseAddress;
  private readonly config: ConnectionConfig;
  /** What each transaction begins with, where a pooler keeps no settings for the session. */
  readonly transactionSettings: AnyStatement | null;

  /** @param config left out by nobody; a pool's type wants it so */
  constructor(config: ConnectionConfig = NO_ADDRESS, address = parseAddress(config.connectionString)) {
    super(driverConfig(config, address));
    this.address = address;
    this.config = config;
    this.transactionSettings = address.isPooled ? transactionSettings(limitsOf(config)) : null;
    if (address.isPooled) this.query = unprepared(super.query.bind(this));
    this.on('error', () => undefined);
  }

  /** Whether a pooler is in between: a prepared statement may be on another session the next time. */
  get isPooled(): boolean {
    return this.address.isPooled;
  }

  override connect(): Promise<this>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<this> | void {
    const connected = this.connectSomewhere();
    if (!callback) return connected;
    const done = callback as (error?: Error) => void;
    connected.then(
      () => process.nextTick(done),
      (error: Error) => process.nextTick(done, error),
    );
  }

  /** pg's: the first packet. */
  getStartupConf(): StartupConfig {
    const startup = ownStartup.call(this as unknown as PgClient);
    if (!this.isPooled) return startup;
    const { user, database, application_name } = startup;
    return { user, database, application_name, ...pooledStartup() };
  }

  private async connectSomewhere(): Promise<this> {
    try {
      if (this.address.mustTakeWrites) this.goTo(await this.findServer());
      return (await super.connect()) as unknown as this;
    } catch (error) {
      if (typeof error === 'object' && error !== null) Object.assign(error, { whileConnecting: true });
      throw error;
    }
  }

  private goTo({ host, port }: DatabaseHost): void {
    Object.assign(this, { host, port });
    Object.assign((this as unknown as PgClient).connectionParameters, { host, port });
  }

  /** The first server that takes writes. Each is asked over a connection of its own, as pg can't use one again. */
  private async findServer(): Promise<DatabaseHost> {
    const { connectionString } = this.config;
    const last = lastChosen.get(connectionString);
    const { hosts } = this.address;
    const failures: { host: DatabaseHost; error: Error & { code?: string } }[] = [];
    for (const host of last ? [last, ...hosts.filter((each) => !isSame(each, last))] : hosts) {
      try {
        await this.requireWrites(host);
        lastChosen.set(connectionString, host);
        return host;
      } catch (error) {
        failures.push({ host, error: error as Error });
      }
    }
    const told = failures.map(({ host: { host, port }, error }) => `${host}:${port}: ${error.message || error.code}`);
    const { code } = failures.map(({ error }) => error).find((error) => error.code !== undefined) ?? {};
    throw Object.assign(new Error(`No server of the address takes writes (${told.join('; ')})`), { code });
  }

  private async requireWrites(host: DatabaseHost): Promise<void> {
    const { connectionTimeoutMillis = 5_000 } = this.config;
    // All of them must have been asked before whoever waits for this connection gives up.
    const patience = Math.max(500, Math.floor(connectionTimeoutMillis / (this.address.hosts.length + 1)));
    const config = { ...this.config, connectionTimeoutMillis: patience, query_timeout: patience, pipeline: false };
    const probe = new SteadyClient(config, { ...this.address, hosts: [host], mustTakeWrites: false });
    try {
      await probe.connect();
      await requirePrimary(probe);
    } finally {
      await probe.end();
    }
  }
}

/** The server follows another one, or recovers, and takes no writes. */
export class StandbyError extends Error {
  override readonly name = 'StandbyError';
  /** SQLSTATE of a read-only transaction. */
  readonly code = '25006';

  constructor() {
    super('the server is a standby, or still recovers, and takes no writes');
  }
}

/** @throws StandbyError where the server takes no writes, whatever a query fails with otherwise */
export async function requirePrimary(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ isStandby: boolean }>('SELECT pg_catalog.pg_is_in_recovery() AS "isStandby"');
  if (rows[0]?.isStandby) throw new StandbyError();
}

function driverConfig(config: ConnectionConfig, address: DatabaseAddress): pg.ClientConfig {
  const { connectionString: _address, ...given } = config;
  const [first] = address.hosts;
  return {
    types: VALUE_TYPES,
    ...given,
    ...first,
    user: address.user,
    password: address.password,
    database: address.database,
    ...(address.tls === undefined ? {} : { ssl: address.tls }),
    enableChannelBinding: address.bindsChannel,
    ...(address.applicationName === undefined ? {} : { application_name: address.applicationName }),
    options: pinnedOptions(address.options),
  };
}

function limitsOf({ statement_timeout, lock_timeout, idle_in_transaction_session_timeout }: TimeLimits): TimeLimits {
  return Object.fromEntries(
    Object.entries({ statement_timeout, lock_timeout, idle_in_transaction_session_timeout }).filter(
      ([, limit]) => limit !== undefined,
    ),
  );
}

/** For statements that come another way than through a StatementQueue: their names are left out. */
function unprepared(query: pg.Client['query']): pg.Client['query'] {
  const send = query as (...given: unknown[]) => unknown;
  return ((statement: unknown, ...rest: unknown[]) => {
    const isNamed = typeof statement === 'object' && statement !== null && 'name' in statement && 'text' in statement;
    return send(isNamed && !('submit' in statement) ? { ...statement, name: undefined } : statement, ...rest);
  }) as pg.Client['query'];
}

function isSame(one: DatabaseHost, other: DatabaseHost): boolean {
  return one.host === other.host && one.port === other.port;
}

/** Works over a connection of its own. */
export async function withClient<T>(config: ConnectionConfig, work: (client: SteadyClient) => Promise<T>): Promise<T> {
  const client = new SteadyClient(config);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Closes a connection that is of no use any more. What it was doing has failed by itself. */
export async function closeBroken(client: ClientBase): Promise<void> {
  // Every client has it, but pg's types know it of those alone that come from no pool.
  await (client as ClientBase & Pick<pg.Client, 'end'>).end().catch(() => undefined);
}
