import pg, { type ClientBase } from 'pg';
import { timestampFromPostgres } from '../common/index.js';

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

/**
 * A connection that may break at any time. Whatever it was doing fails by itself; its `error` event comes as well, also in the
 * moments in which neither a pool nor TypeORM listens, and one that nobody hears would end the process.
 */
export class SteadyClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on('error', () => undefined);
  }
}

/** Works over a connection of its own. */
export async function withClient<T>(config: pg.ClientConfig, work: (client: SteadyClient) => Promise<T>): Promise<T> {
  const client = new SteadyClient({ options: '-c timezone=UTC', types: VALUE_TYPES, ...config });
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
