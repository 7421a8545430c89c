import { setTimeout as sleep } from 'node:timers/promises';
import { rows } from './sql.js';

/** Only what hangs takes so long; a machine may be slow. */
export const HANG_MS = 180_000;

/** Asks again until the answer is there. @throws Error after `milliseconds` */
export async function eventually<T>(
  ask: () => T | undefined | null | false | Promise<T | undefined | null | false>,
  milliseconds = HANG_MS,
): Promise<T> {
  for (const until = Date.now() + milliseconds; ; await sleep(20)) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > until) throw new Error(`it did not happen in ${milliseconds} ms`);
  }
}

/** Until so many connections of a database wait for a lock, or for another connection's transaction. */
export async function untilLocked(superuserUrl: string, connections = 1): Promise<void> {
  const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await eventually(async () => (await rows(superuserUrl, waiting)).length >= connections);
}

/** Until the server has none of these roles' connections to a database any more; their figures are complete then. */
export async function untilGone(superuserUrl: string, ...roles: string[]): Promise<void> {
  const present = 'SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename = ANY ($1)';
  await eventually(async () => (await rows(superuserUrl, present, [roles])).length === 0);
}
