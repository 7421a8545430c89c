import pg from 'pg';
import type { DataSourceOptions } from 'typeorm';
import { timestampFromPostgres } from '../common/index.js';

export interface ConnectionSettings {
  url: string;
  poolSize: number;
}

/** Longest that one statement runs, and longest that it waits for a lock, in milliseconds. */
const STATEMENT_TIMEOUT = 15_000;
const LOCK_TIMEOUT = 5_000;
const CONNECT_TIMEOUT = 5_000;
/** A transaction that a dead client left open ends after this, in milliseconds. */
const IDLE_IN_TRANSACTION_TIMEOUT = 30_000;

/** TypeORM's options for the service's one pool of connections. */
export function dataSourceOptions({ url, poolSize }: ConnectionSettings): DataSourceOptions {
  return {
    type: 'postgres',
    url,
    schema: 'waybill',
    poolSize,
    installExtensions: false,
    applicationName: 'waybill',
    connectTimeoutMS: CONNECT_TIMEOUT,
    extra: {
      pipeline: true,
      types: VALUE_TYPES,
      options: '-c timezone=UTC',
      statement_timeout: STATEMENT_TIMEOUT,
      lock_timeout: LOCK_TIMEOUT,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
      keepAlive: true,
    },
  };
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
