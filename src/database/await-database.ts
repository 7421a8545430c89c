import { setTimeout as sleep } from 'node:timers/promises';
import { isUnavailable } from '../problems/index.js';
import { withClient } from './client.js';

const CONNECT_TIMEOUT_MS = 5_000;
const PAUSE_MS = 1_000;
const REMIND_AFTER = 30;

/**
 * Returns once PostgreSQL takes connections at this address, however long that takes: a database that starts later than
 * the service is no reason to end. What waiting can't mend, such as a wrong password, is thrown at once.
 *
 * @param url with a role's password; only host and database are told
 */
export async function awaitDatabase(url: string, log: (line: string) => void): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await connectOnce(url);
      if (attempt > 0) log('PostgreSQL answers now.');
      return;
    } catch (error) {
      if (!isUnavailable(error)) throw described(url, error);
      const { host, pathname } = new URL(url);
      if (attempt % REMIND_AFTER === 0) {
        log(`Waiting for PostgreSQL at ${host}${pathname} (${messageOf(error)}); trying again every second …`);
      }
    }
    await sleep(PAUSE_MS);
  }
}

async function connectOnce(url: string): Promise<void> {
  const config = { connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS };
  await withClient(config, (client) => client.query('SELECT 1'));
}

function described(url: string, error: unknown): Error {
  const { host, pathname, username } = new URL(url);
  return new Error(`Cannot use PostgreSQL at ${host}${pathname} as ${username}: ${messageOf(error)}`, { cause: error });
}

/** An address with several IPs fails with several errors and an empty message. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}
