import type { Pool } from 'pg';
import type { CheckpointDirectory } from '../log/checkpoint-directory.js';

/** Whoever has or had a history: a tenant that is gone from one of these places is still in another. */
const KNOWN = `
  WITH RECURSIVE recorded(id) AS (
    SELECT min(tenant_id) FROM audit.events
    UNION ALL SELECT (SELECT min(e.tenant_id) FROM audit.events e WHERE e.tenant_id > r.id) FROM recorded r WHERE r.id IS NOT NULL)
  SELECT id FROM waybill.tenants
  UNION SELECT tenant_id FROM audit.logs
  UNION SELECT id FROM recorded WHERE id IS NOT NULL
  ORDER BY id`;

/** Tenants of the database, of its logs and events, and of what was published, in order. */
export async function tenantsToVerify(pool: Pool, directory: CheckpointDirectory | null): Promise<number[]> {
  const { rows } = await pool.query<{ id: number }>(KNOWN);
  const published = (await directory?.tenants()) ?? [];
  return [...new Set([...rows.map(({ id }) => id), ...published])].toSorted((one, other) => one - other);
}
