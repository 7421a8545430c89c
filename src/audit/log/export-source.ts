import type { ClientBase, Pool } from 'pg';
import { EXPORT_FORMAT, type ExportHeader, type ExportLine } from '../verify/export-format.js';
import type { ExportSource } from '../verify/write-export.js';
import { LogStore } from './log-store.js';
import { inPoolTransaction } from '../../database/transaction.js';

const PAGE = `
  SELECT l.leaf_index AS index, e.stream, e.version, e.event_id AS "eventId", e.type, e.actor, e.occurred_us AS "occurredUs",
         e.body, encode(e.prev_hash, 'hex') AS "prevHash", encode(e.event_hash, 'hex') AS "eventHash", e.format,
         l.sealed_us AS "sealedUs", translate(encode(l.signature, 'base64'), E'\\n', '') AS signature
  FROM audit.leaves l JOIN audit.events e ON e.tenant_id = $1 AND e.stream = l.stream AND e.version = l.version
  WHERE l.tenant_id = $1 AND l.leaf_index > $2 ORDER BY l.leaf_index LIMIT $3`;

/** A tenant's log up to the checkpoint that was published last, read as `waybill_sealer`; null when there is none. */
export async function exportSource(pool: Pool, tenantId: number): Promise<ExportSource | null> {
  const header = await inPoolTransaction(pool, async (client) => {
    const store = new LogStore(client, tenantId);
    return headerOf(store, await store.lastPublication());
  });
  return header && sourceOf(header, pool);
}

/** The same as one transaction sees it, with what it has changed itself. */
export async function exportSourceWithin(client: ClientBase, tenantId: number): Promise<ExportSource | null> {
  const store = new LogStore(client, tenantId);
  const header = await headerOf(store, await store.lastCheckpoint());
  return header && sourceOf(header, client);
}

async function headerOf(store: LogStore, last: { size: number; note: string } | null): Promise<ExportHeader | null> {
  const origin = await store.origin();
  if (origin === null) return null;
  return {
    export: EXPORT_FORMAT,
    origin,
    tenantId: store.tenantId,
    size: last?.size ?? 0,
    checkpoint: last?.note ?? null,
  };
}

function sourceOf(header: ExportHeader, database: Pool | ClientBase): ExportSource {
  const page = async (afterIndex: number, limit: number): Promise<ExportLine[]> => {
    const { rows } = await database.query<ExportLine>({
      name: 'audit_export_page',
      text: PAGE,
      values: [header.tenantId, afterIndex, limit],
    });
    return rows;
  };
  return { header, page };
}
