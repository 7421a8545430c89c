import type { Client } from 'pg';

/**
 * Puts events into the database as fast as it takes them, chained and queued as the append does it: `versions` of each of
 * `streams` streams `item/…`, which stand for no entity. For a superuser.
 */
export async function generateEvents(
  client: Client,
  tenantId: number,
  { streams, versions }: { streams: number; versions: number },
): Promise<void> {
  for (let version = 1; version <= versions; version += 1) {
    await client.query(
      `INSERT INTO audit.events
       SELECT $1::bigint, n.stream, $3::bigint, n.event_id, 'item.changed', n.actor, n.occurred_us, n.body, n.prev_hash,
              audit.event_hash($1, n.event_id, n.stream, $3, n.occurred_us, 'item.changed', n.actor, n.body, n.prev_hash, 1::smallint), 1
       FROM (SELECT s.stream, md5(s.stream || '/' || $3)::uuid AS event_id, md5('actor')::uuid AS actor,
                    1796025600000000 + $3 * 1000000 + s.i AS occurred_us,
                    '{"table": "items", "snapshot": {"name": "' || repeat('Grüner Tee ', 60) || s.i || '"}}' AS body,
                    coalesce(p.event_hash, audit.genesis_hash($1, s.stream)) AS prev_hash
             FROM (SELECT i, 'item/' || lpad(i::text, 12, '0') AS stream FROM generate_series(1, $2::int) i) s
             LEFT JOIN audit.events p ON p.tenant_id = $1 AND p.stream = s.stream AND p.version = $3 - 1) n`,
      [tenantId, streams, version],
    );
  }
  await client.query(
    `INSERT INTO audit.queue SELECT tenant_id, stream, version, occurred_us FROM audit.events
     WHERE tenant_id = $1 AND stream LIKE 'item/%'`,
    [tenantId],
  );
  await client.query('ANALYZE audit.events, audit.queue');
}
