import { setTimeout as sleep } from 'node:timers/promises';
import { isUnavailable } from '../problems/index.js';
import { connectFailure, failureText } from './address/connect-failure.js';
import { describeAddress } from './address/database-address.js';
import { requirePrimary, withClient } from './client.js';

const CONNECT_TIMEOUT_MS = 5_000;
const PAUSE_MS = 1_000;
const REMIND_AFTER = 30;

/**
 * Returns once PostgreSQL takes connections and writes at this address, however long that takes: a database that starts later than
 * the service, or is a standby yet, is no reason to end. What waiting can't mend, such as a wrong password, is thrown at once.
 *
 * @param url with a role's password; only servers and database are told
 */
export async function awaitDatabase(url: string, log: (line: string) => void): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await withClient({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS }, requirePrimary);
      if (attempt > 0) log('PostgreSQL answers now.');
      return;
    } catch (error) {
      const { detail, whatToDo } = connectFailure(url, error);
      if (whatToDo) throw new Error(`${detail}. ${whatToDo}`, { cause: error });
      if (!isUnavailable(error)) throw new Error(detail, { cause: error });
      if (attempt % REMIND_AFTER === 0) {
        const reason = failureText(error);
        log(`Waiting for PostgreSQL at ${describeAddress(url)} (${reason}); trying again every second …`);
      }
    }
    await sleep(PAUSE_MS);
  }
}
