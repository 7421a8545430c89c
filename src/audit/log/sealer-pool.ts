import { Pool } from 'pg';
import { SteadyClient } from '../../database/client.js';

/** Longest that one statement of background work runs, and longest that it waits for a lock, in milliseconds. */
const STATEMENT_TIMEOUT = 30_000;
const LOCK_TIMEOUT = 10_000;
const CONNECT_TIMEOUT = 5_000;
const IDLE_IN_TRANSACTION_TIMEOUT = 60_000;

/**
 * Connections of the role `waybill_sealer`. Its own pool, so that sealing never competes with requests for one.
 *
 * @param isPatient for work that reads everything: no time limit on a statement or between two
 */
export function sealerPool(url: string, { size = 2, isPatient = false } = {}): Pool {
  const pool = new Pool({
    connectionString: url,
    max: size,
    Client: SteadyClient,
    application_name: 'waybill sealer',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    idle_in_transaction_session_timeout: isPatient ? 0 : IDLE_IN_TRANSACTION_TIMEOUT,
    statement_timeout: isPatient ? 0 : STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
    keepAlive: true,
    pipeline: true,
    allowExitOnIdle: true,
  });
  // An idle connection that breaks is replaced. The pool's event would end the process if nobody heard it.
  pool.on('error', () => undefined);
  return pool;
}
