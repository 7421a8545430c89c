import type { Client } from 'pg';

export interface StoredKey {
  status: string;
  body: string;
}

export interface OrderEvidence {
  faultKey: string;
  id: string;
  status: string;
  version: number;
  total: number;
  shipping: number;
  linesTotal: number;
  payments: { status: string; authorized: number; captured: number }[];
  /** What the provider did, by its own books. */
  ledger: { operation: string; amount: number }[];
  history: { seq: number; to: string }[];
  events: { version: number; status: string; total: string; isHashRight: boolean; isLinked: boolean }[];
}

/** What the database says of some requests, read in one snapshot. */
export interface Evidence {
  keys: Map<string, StoredKey>;
  orders: OrderEvidence[];
  /** Sentences about what doesn't go on although nobody asks for anything. */
  stuck: string[];
}

const KEYS = `
  SELECT idempotency_key AS key, status, convert_from(response_body, 'UTF8') AS body
  FROM waybill.idempotency_keys WHERE idempotency_key = ANY ($1)`;

/** Every hash is computed anew from the columns that it covers. */
const ORDERS = `
  SELECT o.metadata ->> 'faultKey' AS "faultKey", o.id, o.status, o.version, o.total::int AS total, o.shipping::int AS shipping,
    (SELECT coalesce(sum(l.total), 0)::int FROM waybill.order_lines l
     WHERE l.tenant_id = o.tenant_id AND l.order_id = o.id) AS "linesTotal",
    (SELECT coalesce(jsonb_agg(jsonb_build_object('status', p.status, 'authorized', p.authorized, 'captured', p.captured)), '[]')
     FROM waybill.payments p WHERE p.tenant_id = o.tenant_id AND p.order_id = o.id) AS payments,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('operation', b.operation, 'amount', b.amount) ORDER BY b.id), '[]')
     FROM simulated_provider.ledger b WHERE b.metadata ->> 'waybill_order' = o.id::text) AS ledger,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('seq', h.seq, 'to', h.to_status) ORDER BY h.seq), '[]')
     FROM waybill.order_status_history h WHERE h.tenant_id = o.tenant_id AND h.order_id = o.id) AS history,
    (SELECT coalesce(jsonb_agg(e ORDER BY e.version), '[]') FROM (
       SELECT v.version, v.body::jsonb #>> '{snapshot,status}' AS status, v.body::jsonb #>> '{snapshot,total}' AS total,
         v.event_hash = audit.event_hash(v.tenant_id, v.event_id, v.stream, v.version, v.occurred_us, v.type, v.actor,
                                         v.body, v.prev_hash, v.format) AS "isHashRight",
         v.prev_hash = coalesce(lag(v.event_hash) OVER (ORDER BY v.version), audit.genesis_hash(v.tenant_id, v.stream)) AS "isLinked"
       FROM audit.events v WHERE v.tenant_id = o.tenant_id AND v.stream = 'order/' || o.id) e) AS events
  FROM waybill.orders o
  WHERE o.metadata ->> 'faultKey' = ANY ($1)`;

const STUCK = `
  SELECT format('connection %s has been %s for %s', pid, state, clock_timestamp() - state_change) AS what
  FROM pg_stat_activity
  WHERE datname = current_database() AND usename LIKE 'waybill%' AND state LIKE 'idle in transaction%'
    AND state_change < clock_timestamp() - interval '1 second'
  UNION ALL
  SELECT format('connection %s waits for a %s lock', pid, locktype) FROM pg_locks
  WHERE NOT granted AND waitstart < clock_timestamp() - interval '1 second'`;

/** @param keys of the requests in question; orders carry the key that they were placed with as `metadata.faultKey` */
export async function readEvidence(client: Client, keys: readonly string[]): Promise<Evidence> {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  const stored = await client.query<StoredKey & { key: string }>(KEYS, [keys]);
  const orders = await client.query<OrderEvidence>(ORDERS, [keys]);
  const stuck = await client.query<{ what: string }>(STUCK);
  await client.query('COMMIT');
  return {
    keys: new Map(stored.rows.map(({ key, status, body }) => [key, { status, body }])),
    orders: orders.rows,
    stuck: stuck.rows.map(({ what }) => what),
  };
}
