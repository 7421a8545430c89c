import type { ClientBase } from 'pg';
import type { Fault, FaultCode } from './fault.js';

/** Entities that one statement looks at. */
const STEP = 500;
const FIRST = '00000000-0000-0000-0000-000000000000';

interface StateRow {
  last_id: string | null;
  code: FaultCode | null;
  stream: string;
  version: number | null;
  detail: string;
}

/**
 * Compares every entity with the last event of its stream, through the snapshot functions that make the events, and its
 * status history with all of them.
 *
 * @param kinds what the log has events about: there must be a trigger for each that goes on writing them
 */
export async function checkState(
  client: ClientBase,
  tenantId: number,
  kinds: ReadonlySet<string>,
): Promise<Fault | null> {
  // The functions read with the rights of waybill_audit, but still only rows of the tenant in context.
  await client.query(`SELECT waybill.set_context($1, NULL, '{}', NULL)`, [tenantId]);
  const tenants = await client.query('SELECT FROM waybill.tenants WHERE id = $1', [tenantId]);
  if (tenants.rowCount === 0) return { code: 'MISSING_TENANT', detail: 'the tenant is gone, and its log is there' };
  const sources = await client.query<{ prefix: string }>('SELECT prefix FROM audit.state_sources() ORDER BY prefix');
  const written = new Set(['log', ...sources.rows.map(({ prefix }) => prefix)]);
  const orphan = [...kinds].find((kind) => !written.has(kind));
  if (orphan !== undefined)
    return { code: 'STATE_DRIFT', detail: `there are events of ${orphan}/…, and no trigger that writes them any more` };
  for (const { prefix } of sources.rows) {
    let after: string | null = FIRST;
    while (after !== null) {
      const row = await nextFault(client, [tenantId, prefix, after, STEP]);
      if (row?.code) {
        return { code: row.code, detail: row.detail, stream: row.stream, version: row.version ?? undefined };
      }
      after = row?.last_id ?? null;
    }
  }
  return null;
}

async function nextFault(client: ClientBase, values: unknown[]): Promise<StateRow | undefined> {
  const { rows } = await client.query<StateRow>({
    name: 'audit_state_faults',
    text: 'SELECT * FROM audit.state_faults($1, $2, $3, $4)',
    values,
  });
  return rows[0];
}
