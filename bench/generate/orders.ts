import { Client } from 'pg';
/** Where to generate: a migrated database with the demo tenants, and the user who is to have done it. */
export interface GenerateTarget {
  superuserUrl: string;
  operator: string;
}

export interface GeneratedOrders {
  /** Numbers of the first and of the last order. */
  from: number;
  to: number;
  /** Whether some of the orders are moved on to `confirmed`, so that states are mixed. */
  mixed: boolean;
  /** Whether the events are queued for sealing, as the trigger would have done. */
  queued?: boolean;
}

const BATCH = 10_000;
/** A second connection uses the second core; more gain nothing. */
const CONNECTIONS = 2;

/**
 * Writes orders as a superuser with triggers off, a batch a statement, so that a million takes minutes. What the triggers
 * would have written is written here: lines, contacts, history, and events whose snapshots and hashes come from the
 * database's own functions, so that they verify. An order in three is confirmed, with a second event.
 */
export async function generateOrders(
  database: GenerateTarget,
  { from, to, mixed, queued = false }: GeneratedOrders,
  say: (text: string) => void,
): Promise<void> {
  let next = from;
  const work = async (): Promise<void> => {
    const client = new Client({ connectionString: database.superuserUrl, options: '-c timezone=UTC' });
    await client.connect();
    try {
      await client.query(`SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '64MB'`);
      for (let first = next; first <= to; first = next) {
        next = first + BATCH;
        const last = Math.min(to, next - 1);
        await client.query('BEGIN');
        await client.query(`SELECT waybill.set_context(1, $1, '{operator}', 'generated')`, [database.operator]);
        for (const statement of statements(mixed, queued))
          await client.query(statement, [first, last, database.operator]);
        await client.query('COMMIT');
        say(`generating orders: ${last.toLocaleString('en-US')} of ${to.toLocaleString('en-US')}`);
      }
    } finally {
      await client.end();
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  const client = new Client({ connectionString: database.superuserUrl });
  await client.connect();
  for (const table of TABLES) await client.query(`VACUUM (FREEZE, ANALYZE) ${table}`);
  await client.end();
}

const TABLES = [
  'waybill.orders',
  'waybill.order_lines',
  'waybill.order_contacts',
  'waybill.order_status_history',
  'audit.events',
];

/** Orders of the last hundred days, three a second or so; an id begins with its time, as the service's do. */
const PLACED = `timestamptz '2026-08-01' + n * interval '7 seconds'`;
const ID = `(lpad(to_hex((extract(epoch FROM ${PLACED}) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid`;
const NUMBERS = `generate_series($1::bigint, $2::bigint) n`;
const ORDERS = `(SELECT n, ${ID} AS id FROM ${NUMBERS}) g`;
const LINES = `(VALUES (1, 'TEA-1', 'Green tea', 2, 1299, 0, 190000, 494, 3092),
  (2, 'CUP-7', 'Cup with a handle', 4, 850, 400, 190000, 570, 3570), (3, 'BOOK-3', 'All about tea', 1, 2400, 0, 70000, 168, 2568))
  AS l(no, sku, name, quantity, price, discount, rate, tax, total)`;

function statements(mixed: boolean, queued: boolean): string[] {
  const written = [
    `INSERT INTO waybill.orders (tenant_id, id, number, channel, external_ref, customer_ref, status, version, currency,
       subtotal, discount, tax, shipping, total, metadata, placed_at, updated_at)
     SELECT 1, ${ID}, 'G' || lpad(upper(to_hex(n)), 9, '0'), (ARRAY['web', 'shop', 'phone'])[n % 3 + 1], 'generated-' || n,
            'c-' || n % 50000, 'pending', 1, 'EUR', 8398, 400, 1232, 490, 9720, '{"campaign": "spring"}', ${PLACED}, ${PLACED}
     FROM ${NUMBERS} WHERE $3::uuid IS NOT NULL`,
    `INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
     SELECT 1, g.id, l.no, l.sku, l.name, l.quantity, l.price, l.discount, l.rate, l.tax, l.total
     FROM ${ORDERS} CROSS JOIN ${LINES} WHERE $3::uuid IS NOT NULL`,
    `INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value, digest)
     SELECT 1, g.id, c.field, 1, s.salt, c.value, audit.pii_digest(s.salt, c.field, c.value)
     FROM ${ORDERS} CROSS JOIN (VALUES ('customer', '{"name":"Ada Example","email":"ada@example.test"}'),
       ('shippingAddress', '{"line1":"1 Main St","city":"Berlin","postalCode":"10115","country":"DE"}')) AS c(field, value)
     CROSS JOIN LATERAL (SELECT sha256(convert_to(g.id || c.field, 'UTF8')) AS salt) s
     WHERE $3::uuid IS NOT NULL`,
    `INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, to_status, changed_by, changed_at, request_id)
     SELECT 1, g.id, 1, 'pending', $3, ${PLACED}, 'generated' FROM ${ORDERS}`,
    events('created', 1, `audit.genesis_hash(1, 'order/' || g.id)`, 'NULL::jsonb'),
  ];
  if (queued) {
    written.push(`INSERT INTO audit.queue (tenant_id, stream, version, occurred_us)
      SELECT 1, e.stream, e.version, e.occurred_us FROM ${ORDERS}
      JOIN audit.events e ON e.tenant_id = 1 AND e.stream = 'order/' || g.id WHERE $3::uuid IS NOT NULL`);
  }
  if (!mixed) return written;
  return [
    ...written,
    `UPDATE waybill.orders o SET status = 'confirmed', version = 2, updated_at = o.updated_at + interval '1 hour'
     FROM ${ORDERS} WHERE o.tenant_id = 1 AND o.id = g.id AND g.n % 3 = 0 AND $3::uuid IS NOT NULL`,
    `INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, from_status, to_status, changed_by, changed_at, request_id)
     SELECT 1, g.id, 2, 'pending', 'confirmed', $3, ${PLACED} + interval '1 hour', 'generated' FROM ${ORDERS} WHERE g.n % 3 = 0`,
    events(
      'confirmed',
      2,
      `(SELECT e.event_hash FROM audit.events e WHERE e.tenant_id = 1 AND e.stream = 'order/' || g.id AND e.version = 1)`,
      `'{"status": {"old": "pending", "new": "confirmed"}}'::jsonb`,
    ),
  ];
}

function events(type: string, version: number, previous: string, changes: string): string {
  return `INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
    SELECT 1, e.stream, ${version}, e.event_id, 'order.${type}', $3, e.occurred_us, e.body, e.previous,
           audit.event_hash(1, e.event_id, e.stream, ${version}, e.occurred_us, 'order.${type}', $3, e.body, e.previous, 1::smallint), 1
    FROM (SELECT 'order/' || g.id AS stream, gen_random_uuid() AS event_id, ${previous} AS previous,
                 (extract(epoch FROM o.updated_at) * 1000000)::bigint AS occurred_us,
                 jsonb_build_object('table', 'orders', 'reason', NULL, 'changes', ${changes}, 'requestId', 'generated',
                                    'snapshot', waybill.order_snapshot(o)::json)::text AS body
          FROM ${ORDERS} JOIN waybill.orders o ON o.tenant_id = 1 AND o.id = g.id WHERE o.version = ${version} OFFSET 0) e`;
}
