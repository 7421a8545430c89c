import { Pool, type PoolClient, types } from 'pg';

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
    application_name: 'waybill sealer',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    idle_in_transaction_session_timeout: isPatient ? 0 : IDLE_IN_TRANSACTION_TIMEOUT,
    statement_timeout: isPatient ? 0 : STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
    options: '-c timezone=UTC',
    keepAlive: true,
    pipeline: true,
    allowExitOnIdle: true,
    types: { getTypeParser },
  });
  // A connection that breaks is replaced, and the next statement says what is wrong. The event comes as well, from the pool for an idle
  // one and else from the connection, and would end the process if nobody heard it.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/** Bigints of the audit trail stay below 2^53 by CHECK or by nature. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): unknown {
  if (oid === types.builtins.INT8) return Number;
  return types.getTypeParser(oid, format as 'text');
}

export type IsolationLevel = 'READ COMMITTED' | 'REPEATABLE READ READ ONLY';

export async function inTransaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  isolation: IsolationLevel = 'READ COMMITTED',
): Promise<T> {
  const client = await pool.connect();
  let isBroken: Error | undefined;
  try {
    await client.query(`BEGIN ISOLATION LEVEL ${isolation}`);
    const result = await work(client);
    const { command } = await client.query('COMMIT');
    if (command !== 'COMMIT') throw new Error(`COMMIT was answered with ${command}`);
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch((broken: Error) => (isBroken = broken));
    throw error;
  } finally {
    client.release(isBroken);
  }
}
