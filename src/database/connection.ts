import pg from 'pg';
import type { DataSourceOptions } from 'typeorm';
import { timestampFromPostgres } from '../common/index.js';

export interface ConnectionSettings {
  url: string;
  poolSize: number;
  timeouts: {
    /** Longest wait for a connection, new or out of the pool. */
    connectSeconds: number;
    statementSeconds: number;
    lockSeconds: number;
  };
}

/**
 * How much longer than a statement's timeout the driver waits for its answer, in milliseconds. It is for a server that
 * no longer keeps its own timeouts: frozen, or cut off without a word. The connection is given up then.
 */
const ANSWER_PATIENCE = 3_000;
/** A transaction that a dead client left open ends after this, in milliseconds. */
const IDLE_IN_TRANSACTION_TIMEOUT = 30_000;

/** TypeORM's options for the service's one pool of connections. */
export function dataSourceOptions({ url, poolSize, timeouts }: ConnectionSettings): DataSourceOptions {
  return {
    type: 'postgres',
    url,
    schema: 'waybill',
    poolSize,
    installExtensions: false,
    applicationName: 'waybill',
    connectTimeoutMS: timeouts.connectSeconds * 1000,
    extra: {
      Client: SteadyClient,
      pipeline: true,
      types: VALUE_TYPES,
      options: '-c timezone=UTC',
      statement_timeout: timeouts.statementSeconds * 1000,
      query_timeout: timeouts.statementSeconds * 1000 + ANSWER_PATIENCE,
      lock_timeout: timeouts.lockSeconds * 1000,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
      keepAlive: true,
    },
  };
}

/**
 * Whatever a connection that breaks was doing fails by itself. Its `error` event comes as well, also in the moments in which neither
 * the pool nor TypeORM listens, and one that nobody hears would end the process.
 */
export class SteadyClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config);
    this.on('error', () => undefined);
  }
}

/**
 * Timestamps become RFC 3339 text, as the driver's Date would lose the microseconds; bigints become numbers, as ours
 * stay below 2^53 by CHECK. For a session under TimeZone UTC.
 */
export const VALUE_TYPES = { getTypeParser };

function getTypeParser(oid: number, format?: 'text' | 'binary'): unknown {
  if (oid === pg.types.builtins.TIMESTAMPTZ) return timestampFromPostgres;
  if (oid === pg.types.builtins.INT8) return Number;
  return pg.types.getTypeParser(oid, format as 'text');
}
