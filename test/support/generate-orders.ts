import type { Client } from 'pg';

/** Placed in the past, a few seconds apart, newest last; states and channels as unevenly spread as in real life. */
const ORDERS = `
INSERT INTO waybill.orders (tenant_id, id, number, channel, external_ref, customer_ref, status, version, currency,
                            subtotal, discount, tax, shipping, total, placed_at, updated_at)
SELECT $1::bigint, md5($1::text || ':' || i)::uuid,
       overlay(upper(substr(md5('n' || i), 1, 4) || lpad(to_hex(i), 6, '0')) placing '-' from 5 for 0),
       (ARRAY['web', 'web', 'web', 'web', 'web', 'web', 'shop', 'shop', 'partner', 'phone'])[1 + i % 10],
       'ref-' || lpad(i::text, 9, '0'), 'c-' || (i * 7919 % 50000),
       CASE WHEN i > $4::bigint - 400 THEN 'pending' WHEN i % 1000 = 0 THEN 'confirmed' WHEN i % 500 = 1 THEN 'shipped'
            WHEN i % 25 = 3 THEN 'canceled' ELSE 'delivered' END,
       1, 'EUR', 5000, 0, 0, 500, 5500,
       timestamptz '2020-01-01T00:00:00Z' + i * interval '61 seconds 1 microsecond',
       timestamptz '2020-01-01T00:00:00Z' + i * interval '61 seconds 1 microsecond' + interval '2 days'
FROM generate_series($2::bigint, $3::bigint) AS i`;

const LINES = `
INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
SELECT $1::bigint, md5($1::text || ':' || i)::uuid, n, 'SKU-' || n, 'Thing ' || n, 1, 1000, 0, 0, 0, 1000
FROM generate_series($2::bigint, $3::bigint) AS i, generate_series(1, 5) AS n`;

/**
 * Fills a tenant with orders of five lines each, past the triggers: for lists only, as they have neither history nor
 * events. The client is a superuser's.
 *
 * @param from number of the first order to make
 * @param to number of the last one
 * @param withLinesFrom orders below it get no lines, which makes a million of them faster
 */
export async function generateOrders(
  client: Client,
  tenant: number,
  { from, to, total = to, withLinesFrom = from }: { from: number; to: number; total?: number; withLinesFrom?: number },
): Promise<void> {
  await client.query('SET session_replication_role = replica');
  await client.query(ORDERS, [tenant, from, to, total]);
  if (withLinesFrom <= to) await client.query(LINES, [tenant, Math.max(from, withLinesFrom), to]);
  await client.query('RESET session_replication_role');
}
