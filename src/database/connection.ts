import type { DataSourceOptions } from 'typeorm';
import { parseAddress } from './address/database-address.js';
import { SteadyClient } from './client.js';

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
    database: parseAddress(url).database,
    schema: 'waybill',
    poolSize,
    installExtensions: false,
    applicationName: 'waybill',
    connectTimeoutMS: timeouts.connectSeconds * 1000,
    extra: {
      Client: SteadyClient,
      // Not as TypeORM's `url`: it would be read as a URL, which holds neither several hosts nor a socket.
      connectionString: url,
      pipeline: true,
      statement_timeout: timeouts.statementSeconds * 1000,
      query_timeout: timeouts.statementSeconds * 1000 + ANSWER_PATIENCE,
      lock_timeout: timeouts.lockSeconds * 1000,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
      keepAlive: true,
    },
  };
}
