import { Injectable } from '@nestjs/common';
import type { NamedStatement, TenantTransaction } from '../database/index.js';

/** One event as it is stored. `body` is the very text that was hashed. */
export interface AuditEvent {
  stream: string;
  version: number;
  eventId: string;
  type: string;
  actor: string;
  occurredAt: string;
  body: string;
  prevHash: string;
  eventHash: string;
  format: number;
}

/** An event of a stream, with its place in the log, the time of its sealing and its signature (base64); null until then. */
export interface StreamEvent extends AuditEvent {
  logIndex: number | null;
  sealedAt: string | null;
  signature: string | null;
}

/** What Waybill's trigger puts into a body. `snapshot` is the entity after the change. */
export interface EventBody<Snapshot> {
  table: string;
  reason: string | null;
  requestId: string | null;
  /** Field to old and new value; null in the first event. */
  changes: Record<string, { old: unknown; new: unknown }> | null;
  snapshot: Snapshot;
}

const EVENT = `stream, version, event_id AS "eventId", type, actor,
  timestamptz 'epoch' + occurred_us * interval '1 microsecond' AS "occurredAt",
  body, encode(prev_hash, 'hex') AS "prevHash", encode(event_hash, 'hex') AS "eventHash", format`;

const PAGE: NamedStatement = {
  name: 'audit_stream_page',
  text: `SELECT e.*, l.leaf_index AS "logIndex",
           timestamptz 'epoch' + l.sealed_us * interval '1 microsecond' AS "sealedAt", translate(encode(l.signature, 'base64'), E'\\n', '') AS signature
         FROM (SELECT ${EVENT} FROM audit.events
               WHERE tenant_id = $1 AND stream = $2 AND version > $3 ORDER BY version LIMIT $4) e
         LEFT JOIN audit.leaves l ON l.tenant_id = $1 AND l.stream = $2 AND l.version = e.version
         ORDER BY e.version`,
};

const AT_VERSION: NamedStatement = {
  name: 'audit_event_at_version',
  text: `SELECT ${EVENT} FROM audit.events WHERE tenant_id = $1 AND stream = $2 AND version = $3`,
};

// Times within a stream never run backwards, so the newest version that is old enough is the one.
const AT_TIME: NamedStatement = {
  name: 'audit_event_at_time',
  text: `SELECT ${EVENT} FROM audit.events
         WHERE tenant_id = $1 AND stream = $2 AND occurred_us <= (extract(epoch FROM $3::timestamptz) * 1000000)::bigint
         ORDER BY version DESC LIMIT 1`,
};

/** Reads the events of one entity. */
@Injectable()
export class EventReader {
  /** Events after a version, oldest first. */
  page(tx: TenantTransaction, stream: string, afterVersion: number, limit: number): Promise<StreamEvent[]> {
    return tx.rows<StreamEvent>(PAGE, [tx.context.tenantId, stream, afterVersion, limit]);
  }

  async atVersion(tx: TenantTransaction, stream: string, version: number): Promise<AuditEvent | null> {
    const [event] = await tx.rows<AuditEvent>(AT_VERSION, [tx.context.tenantId, stream, version]);
    return event ?? null;
  }

  /** The last event at or before a time (RFC 3339). */
  async atTime(tx: TenantTransaction, stream: string, time: string): Promise<AuditEvent | null> {
    const [event] = await tx.rows<AuditEvent>(AT_TIME, [tx.context.tenantId, stream, time]);
    return event ?? null;
  }
}
