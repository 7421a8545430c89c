import { type BenchDatabase, query } from '../world/server.js';

interface Written {
  orders: number;
  lines: number;
  histories: number;
  events: number;
  keys: number;
}

/** Rows of each kind, all tenants together. */
async function countWritten({ superuserUrl }: BenchDatabase): Promise<Written> {
  const [row] = await query<Record<keyof Written, string>>(
    superuserUrl,
    `SELECT (SELECT count(*) FROM waybill.orders) AS orders, (SELECT count(*) FROM waybill.order_lines) AS lines,
            (SELECT count(*) FROM waybill.order_status_history) AS histories,
            (SELECT count(*) FROM audit.events WHERE stream LIKE 'order/%') AS events,
            (SELECT count(*) FROM waybill.idempotency_keys WHERE status = 'completed') AS keys`,
  );
  const of = (name: keyof Written): number => Number(row?.[name] ?? 0);
  return {
    orders: of('orders'),
    lines: of('lines'),
    histories: of('histories'),
    events: of('events'),
    keys: of('keys'),
  };
}

/**
 * Recomputes every hash, and compares each event's previous hash with the event before it.
 * @throws Error that says how many don't hold
 */
export async function checkChain({ superuserUrl }: BenchDatabase): Promise<void> {
  const [row] = await query<{ broken: string }>(
    superuserUrl,
    `SELECT count(*) FILTER (WHERE
        e.event_hash <> audit.event_hash(e.tenant_id, e.event_id, e.stream, e.version, e.occurred_us, e.type, e.actor,
                                         e.body, e.prev_hash, e.format)
        OR e.prev_hash <> coalesce(e.before, audit.genesis_hash(e.tenant_id, e.stream))) AS broken
     FROM (SELECT *, lag(event_hash) OVER (PARTITION BY tenant_id, stream ORDER BY version) AS before FROM audit.events) e`,
  );
  if (row?.broken !== '0') throw new Error(`${row?.broken} events are not what their hashes say`);
}

/**
 * Checks that orders were really written, each with all that belongs to it.
 *
 * @param atLeast how many creates were answered; the last of each connection may have come after it was counted
 * @throws Error that says what is missing
 */
export async function checkWrites(database: BenchDatabase, atLeast: number): Promise<void> {
  const { orders, lines, histories, events, keys } = await countWritten(database);
  if (orders < atLeast) throw new Error(`${atLeast} creates were answered, but there are ${orders} orders`);
  checkEqual('rows written', { orders, lines: lines / 3, histories, events, ...(keys > 0 ? { keys } : {}) });
  await checkChain(database);
}

/** @throws Error when the numbers differ */
function checkEqual(what: string, numbers: Record<string, number>): void {
  const values = Object.values(numbers);
  if (values.some((value) => value !== values[0])) throw new Error(`${what}: ${JSON.stringify(numbers)}`);
}
