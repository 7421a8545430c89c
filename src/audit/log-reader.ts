import { Injectable } from '@nestjs/common';
import type { NamedStatement, TenantTransaction } from '../database/index.js';
import { AUDITORS } from '../identity/index.js';
import { LAST_PUBLICATION, LEAF_HASHES, NAME, nameOf, NODE_HASHES, type StoredName } from './log/log-store.js';
import { TreeReader } from './log/tree-reader.js';
import { EXPORT_FORMAT, type ExportHeader, type ExportLine } from './verify/export-format.js';

/** A sealed event with its place in the log. */
export interface SealedEvent extends ExportLine {
  /** RFC 3339. */
  occurredAt: string;
  sealedAt: string;
}

export interface LogPlace {
  origin: string;
  /** From 1; one more after each restore. */
  generation: number;
  /** Index of the first leaf under this name: 0, or that of the event that tells of the last restore. */
  originFrom: number;
}

export interface LatestCheckpoint {
  size: number;
  note: string;
}

const PAGE: NamedStatement = {
  name: 'audit_log_page',
  text: `SELECT l.leaf_index AS index, e.stream, e.version, e.event_id AS "eventId", e.type, e.actor,
           timestamptz 'epoch' + e.occurred_us * interval '1 microsecond' AS "occurredAt",
           e.occurred_us AS "occurredUs", e.body, encode(e.prev_hash, 'hex') AS "prevHash",
           encode(e.event_hash, 'hex') AS "eventHash", e.format,
           l.sealed_us AS "sealedUs", timestamptz 'epoch' + l.sealed_us * interval '1 microsecond' AS "sealedAt",
           translate(encode(l.signature, 'base64'), E'\\n', '') AS signature
         FROM audit.leaves l
         JOIN audit.events e ON e.tenant_id = $1 AND e.stream = l.stream AND e.version = l.version
         WHERE l.tenant_id = $1 AND l.leaf_index > $2 AND split_part(l.stream, '/', 1) <> ALL ($4)
         ORDER BY l.leaf_index LIMIT $3`,
};

const LEAF_OF: NamedStatement = {
  name: 'audit_leaf_of_event',
  text: 'SELECT leaf_index AS index FROM audit.leaves WHERE tenant_id = $1 AND stream = $2 AND version = $3',
};

const PLACE: NamedStatement = {
  name: 'audit_log_place',
  text: `SELECT l.origin AS first, k.generation, min(k.valid_from) AS "validFrom"
         FROM audit.logs l JOIN audit.keys k ON k.tenant_id = $1
         WHERE l.tenant_id = $1 GROUP BY l.origin, k.generation ORDER BY k.generation DESC LIMIT 1`,
};

const SIZE: NamedStatement = {
  name: 'audit_log_size',
  text: 'SELECT coalesce(max(leaf_index) + 1, 0) AS size FROM audit.leaves WHERE tenant_id = $1',
};

/** Streams whose entities are shown to administrators alone, and so their events to them and to auditors. */
const CONFIDENTIAL = ['user', 'api_key', 'idempotency_policy', 'log_policy'];

function hiddenFrom(roles: readonly string[]): readonly string[] {
  return AUDITORS.some((role) => roles.includes(role)) ? [] : CONFIDENTIAL;
}

/** Reads a tenant's log. */
@Injectable()
export class LogReader {
  /** Events after a leaf that the caller may see, in the log's order: the feed, which no later commit can disturb. */
  page(tx: TenantTransaction, afterIndex: number, limit: number): Promise<SealedEvent[]> {
    const { tenantId, roles } = tx.context;
    return tx.rows<SealedEvent>(PAGE, [tenantId, afterIndex, limit, hiddenFrom(roles)]);
  }

  /** What the log is called, and since which leaf; null when there is none. */
  async place(tx: TenantTransaction): Promise<LogPlace | null> {
    const [place] = await tx.rows<StoredName & { validFrom: number }>(PLACE, [tx.context.tenantId]);
    return place ? { origin: nameOf(place), generation: place.generation, originFrom: place.validFrom } : null;
  }

  /** Number of leaves. */
  async size(tx: TenantTransaction): Promise<number> {
    const [log] = await tx.rows<{ size: number }>(SIZE, [tx.context.tenantId]);
    return log?.size ?? 0;
  }

  /** The one that was published last: what isn't published is known to nobody outside. */
  async latestCheckpoint(tx: TenantTransaction): Promise<LatestCheckpoint | null> {
    const [checkpoint] = await tx.rows<LatestCheckpoint>(LAST_PUBLICATION, [tx.context.tenantId]);
    return checkpoint ?? null;
  }

  async leafOf(tx: TenantTransaction, stream: string, version: number): Promise<number | null> {
    const [leaf] = await tx.rows<{ index: number }>(LEAF_OF, [tx.context.tenantId, stream, version]);
    return leaf?.index ?? null;
  }

  async leafHash(tx: TenantTransaction, index: number): Promise<Buffer | null> {
    const [leaf] = await tx.rows<{ hash: Buffer }>(LEAF_HASHES, [tx.context.tenantId, index, index + 1]);
    return leaf?.hash ?? null;
  }

  /** First line of an export; null when the tenant has no log yet. */
  async exportHeader(tx: TenantTransaction): Promise<ExportHeader | null> {
    const { tenantId } = tx.context;
    const [name] = await tx.rows<StoredName>(NAME, [tenantId]);
    if (!name) return null;
    const checkpoint = await this.latestCheckpoint(tx);
    return {
      export: EXPORT_FORMAT,
      origin: nameOf(name),
      tenantId,
      size: checkpoint?.size ?? 0,
      checkpoint: checkpoint?.note ?? null,
    };
  }

  tree(tx: TenantTransaction): TreeReader {
    const hashes = async (statement: NamedStatement, ...values: number[]): Promise<Buffer[]> => {
      const rows = await tx.rows<{ hash: Buffer }>(statement, [tx.context.tenantId, ...values]);
      return rows.map(({ hash }) => hash);
    };
    return new TreeReader({
      leafHashes: (begin, end) => hashes(LEAF_HASHES, begin, end),
      nodeHashes: (level, begin, end) => hashes(NODE_HASHES, level, begin, end),
    });
  }
}
