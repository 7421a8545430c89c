import type { Writable } from 'node:stream';
import type { PoolClient } from 'pg';

/**
 * Lets statements that are sent now leave in one packet with those that follow before the process turns to something
 * else. pg writes every statement by itself: a system call for us and a wake-up for PostgreSQL each.
 */
export function holdWrites(client: PoolClient): void {
  const stream = streamOf(client);
  if (!stream) return;
  stream.cork();
  // Runs when everything is done that can be done without waiting, such as a handler up to its first statement.
  process.nextTick(() => stream.uncork());
}

/** pg's own, not in its types; without it statements simply leave one by one. */
function streamOf(client: PoolClient): Writable | undefined {
  const { connection } = client as PoolClient & { connection?: { stream?: Writable } };
  const stream = connection?.stream;
  return typeof stream?.cork === 'function' ? stream : undefined;
}
