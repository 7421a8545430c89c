import type { ClientBase, Pool } from 'pg';
import type { LogPublicKeys } from '../format/event-hash.js';
import type { PublishedNote } from './checkpoint-directory.js';
import type { Subtree } from '../format/merkle.js';
import type { TreeSource } from './tree-reader.js';

/** An event as the sealer finds it. Null columns: the queue has a row, the events have none. */
export interface PendingEvent {
  stream: string;
  version: number;
  eventId: string | null;
  type: string;
  actor: string;
  occurredUs: number;
  body: string;
  prevHash: Buffer;
  eventHash: Buffer;
  format: number;
  /** Hash of the version before, and whether that is sealed already. */
  beforeHash: Buffer | null;
  isBeforeSealed: boolean;
}

export interface NewLeaf {
  index: number;
  stream: string;
  version: number;
  /** Microseconds since 1970-01-01T00:00:00Z. */
  sealedUs: number;
  signature: Buffer;
  leafHash: Buffer;
}

export interface StoredCheckpoint {
  size: number;
  root: Buffer;
  note: string;
}

export interface StoredKeys extends LogPublicKeys {
  /** From 1; one more after each restore. */
  generation: number;
  /** Index of the first leaf that the event key signs. */
  validFrom: number;
}

/** What a log is called. */
export interface StoredName {
  /** The name of its first generation. */
  first: string;
  generation: number;
}

/** An event about the log itself, sealed. */
export interface LogEvent {
  index: number;
  version: number;
  eventId: string;
  type: string;
  actor: string;
  occurredUs: number;
  body: string;
  prevHash: Buffer;
  eventHash: Buffer;
  format: number;
  sealedUs: number;
  signature: Buffer;
}

export type LogEventType = 'log.started' | 'log.key-rotated' | 'log.resumed';

/** Every statement of the sealer on one tenant's log, inside a transaction of the role `waybill_sealer`. */
export class LogStore implements TreeSource {
  constructor(
    private readonly client: ClientBase,
    readonly tenantId: number,
  ) {}

  /** Makes the log when there is none. @returns whether it was made */
  async create(origin: string): Promise<boolean> {
    const made = await this.client.query(
      'INSERT INTO audit.logs (tenant_id, origin) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1',
      [this.tenantId, origin],
    );
    return made.rowCount === 1;
  }

  /** Locks the log until the transaction ends. @returns its first name; null when there is no log, or another holds it */
  async lock({ wait }: { wait: boolean }): Promise<string | null> {
    const { rows } = await this.client.query<{ origin: string }>(
      `SELECT origin FROM audit.logs WHERE tenant_id = $1 FOR UPDATE ${wait ? '' : 'SKIP LOCKED'}`,
      [this.tenantId],
    );
    return rows[0]?.origin ?? null;
  }

  /** What the log is called now; null when there is none. */
  async origin(): Promise<string | null> {
    const { rows } = await this.client.query<StoredName>({ ...NAME, values: [this.tenantId] });
    return rows[0] ? nameOf(rows[0]) : null;
  }

  /** What it was called before any restore; null when there is no log. */
  async firstOrigin(): Promise<string | null> {
    const { rows } = await this.client.query<StoredName>({ ...NAME, values: [this.tenantId] });
    return rows[0]?.first ?? null;
  }

  /** Number of leaves. */
  async size(): Promise<number> {
    const { rows } = await this.client.query<{ last: number | null }>(
      'SELECT max(leaf_index) AS last FROM audit.leaves WHERE tenant_id = $1',
      [this.tenantId],
    );
    return (rows[0]?.last ?? -1) + 1;
  }

  /** When the last leaf was signed; 0 without one. */
  async lastSealedUs(): Promise<number> {
    const { rows } = await this.client.query<{ sealedUs: number }>(
      'SELECT sealed_us AS "sealedUs" FROM audit.leaves WHERE tenant_id = $1 ORDER BY leaf_index DESC LIMIT 1',
      [this.tenantId],
    );
    return rows[0]?.sealedUs ?? 0;
  }

  /** Oldest first. */
  async keys(): Promise<StoredKeys[]> {
    const { rows } = await this.client.query<StoredKeys>(
      `SELECT generation, valid_from AS "validFrom", checkpoint_key AS "checkpointKey", event_key AS "eventKey"
       FROM audit.keys WHERE tenant_id = $1 ORDER BY generation, valid_from`,
      [this.tenantId],
    );
    return rows;
  }

  async addKeys({ generation, validFrom, checkpointKey, eventKey }: StoredKeys): Promise<void> {
    await this.client.query(
      'INSERT INTO audit.keys (tenant_id, generation, valid_from, checkpoint_key, event_key) VALUES ($1, $2, $3, $4, $5)',
      [this.tenantId, generation, validFrom, checkpointKey, eventKey],
    );
  }

  async lastCheckpoint(): Promise<StoredCheckpoint | null> {
    const { rows } = await this.client.query<StoredCheckpoint>(
      'SELECT size, root, note FROM audit.checkpoints WHERE tenant_id = $1 ORDER BY size DESC LIMIT 1',
      [this.tenantId],
    );
    return rows[0] ?? null;
  }

  /** The checkpoint that was published last, as it was published; null when none was. */
  async lastPublication(): Promise<Omit<StoredCheckpoint, 'root'> | null> {
    const { rows } = await this.client.query<Omit<StoredCheckpoint, 'root'>>({
      ...LAST_PUBLICATION,
      values: [this.tenantId],
    });
    return rows[0] ?? null;
  }

  /** Notes what was published; once is enough, more does no harm. */
  async addPublication({ generation, size, note }: PublishedNote): Promise<void> {
    await this.client.query(
      'INSERT INTO audit.publications (tenant_id, generation, size, note) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING',
      [this.tenantId, generation, size, note],
    );
  }

  async addCheckpoint({ size, root, note }: StoredCheckpoint): Promise<void> {
    await this.client.query('INSERT INTO audit.checkpoints (tenant_id, size, root, note) VALUES ($1, $2, $3, $4)', [
      this.tenantId,
      size,
      root,
      note,
    ]);
  }

  /** Queued events, in version order within a stream. */
  async pending(limit: number): Promise<PendingEvent[]> {
    const { rows } = await this.client.query<PendingEvent>({ ...PENDING, values: [this.tenantId, limit] });
    return rows;
  }

  /** One queued event. */
  async pendingOf(stream: string, version: number): Promise<PendingEvent[]> {
    const { rows } = await this.client.query<PendingEvent>({
      ...PENDING_OF,
      values: [this.tenantId, stream, version],
    });
    return rows;
  }

  /** Takes events off the queue and puts their leaves into the log, with the nodes that they complete. */
  async append(leaves: readonly NewLeaf[], nodes: readonly (Subtree & { hash: Buffer })[]): Promise<void> {
    const streams = leaves.map(({ stream }) => stream);
    const versions = leaves.map(({ version }) => version);
    const taken = await this.client.query({
      name: 'audit_dequeue',
      text: `DELETE FROM audit.queue q USING unnest($2::text[], $3::bigint[]) AS s(stream, version)
             WHERE q.tenant_id = $1 AND q.stream = s.stream AND q.version = s.version`,
      values: [this.tenantId, streams, versions],
    });
    if (taken.rowCount !== leaves.length) throw new Error('events left the queue while their log was locked');
    await this.client.query({
      name: 'audit_append_leaves',
      text: `INSERT INTO audit.leaves (tenant_id, leaf_index, stream, version, sealed_us, signature, leaf_hash)
             SELECT $1, l.* FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[]) AS l`,
      values: [
        this.tenantId,
        leaves.map(({ index }) => index),
        streams,
        versions,
        leaves.map(({ sealedUs }) => sealedUs),
        leaves.map(({ signature }) => signature),
        leaves.map(({ leafHash }) => leafHash),
      ],
    });
    if (nodes.length === 0) return;
    await this.client.query({
      name: 'audit_append_nodes',
      text: `INSERT INTO audit.nodes (tenant_id, level, node_index, hash)
             SELECT $1, n.* FROM unnest($2::smallint[], $3::bigint[], $4::bytea[]) AS n`,
      values: [
        this.tenantId,
        nodes.map(({ level }) => level),
        nodes.map(({ index }) => index),
        nodes.map(({ hash }) => hash),
      ],
    });
  }

  /** Appends an event about the log itself. @returns its version in the stream `log/<tenant>` */
  async recordLogEvent(type: LogEventType, snapshot: object): Promise<number> {
    await this.client.query(`SELECT waybill.set_context($1, NULL, '{}', NULL)`, [this.tenantId]);
    const { rows } = await this.client.query<{ version: number }>(
      'SELECT audit.record_log_event($1, $2, $3) AS version',
      [this.tenantId, type, snapshot],
    );
    return rows[0]?.version ?? 0;
  }

  /** The events about the log itself that are in it, in its order. */
  async logEvents(): Promise<LogEvent[]> {
    const { rows } = await this.client.query<LogEvent>(
      `SELECT l.leaf_index AS index, e.version, e.event_id AS "eventId", e.type, e.actor, e.occurred_us AS "occurredUs",
              e.body, e.prev_hash AS "prevHash", e.event_hash AS "eventHash", e.format,
              l.sealed_us AS "sealedUs", l.signature
       FROM audit.events e JOIN audit.leaves l USING (tenant_id, stream, version)
       WHERE e.tenant_id = $1 AND e.stream = $2 ORDER BY l.leaf_index`,
      [this.tenantId, `log/${this.tenantId}`],
    );
    return rows;
  }

  async leafHashes(begin: number, end: number): Promise<Buffer[]> {
    const { rows } = await this.client.query<{ hash: Buffer }>({ ...LEAF_HASHES, values: [this.tenantId, begin, end] });
    return rows.map(({ hash }) => hash);
  }

  async nodeHashes(level: number, begin: number, end: number): Promise<Buffer[]> {
    const values = [this.tenantId, level, begin, end];
    const { rows } = await this.client.query<{ hash: Buffer }>({ ...NODE_HASHES, values });
    return rows.map(({ hash }) => hash);
  }
}

export const LAST_PUBLICATION = {
  name: 'audit_last_publication',
  text: 'SELECT size, note FROM audit.publications WHERE tenant_id = $1 ORDER BY generation DESC, size DESC LIMIT 1',
};

export const NAME = {
  name: 'audit_log_name',
  text: `SELECT l.origin AS first, coalesce((SELECT max(k.generation) FROM audit.keys k WHERE k.tenant_id = $1), 1) AS generation
         FROM audit.logs l WHERE l.tenant_id = $1`,
};

export function nameOf({ first, generation }: StoredName): string {
  return generation === 1 ? first : `${first}/${generation}`;
}

/** With the version before, to check the chain by. */
function pendingFrom(queued: string): string {
  return `
    SELECT q.stream, q.version, e.event_id AS "eventId", e.type, e.actor, e.occurred_us AS "occurredUs", e.body,
           e.prev_hash AS "prevHash", e.event_hash AS "eventHash", e.format,
           b.event_hash AS "beforeHash", l.leaf_index IS NOT NULL AS "isBeforeSealed"
    FROM (SELECT stream, version FROM audit.queue WHERE tenant_id = $1 ${queued}) q
    LEFT JOIN audit.events e ON e.tenant_id = $1 AND e.stream = q.stream AND e.version = q.version
    LEFT JOIN audit.events b ON b.tenant_id = $1 AND b.stream = q.stream AND b.version = q.version - 1
    LEFT JOIN audit.leaves l ON l.tenant_id = $1 AND l.stream = q.stream AND l.version = q.version - 1
    ORDER BY q.stream, q.version`;
}

const PENDING = { name: 'audit_pending', text: pendingFrom('ORDER BY stream, version LIMIT $2') };
const PENDING_OF = { name: 'audit_pending_of', text: pendingFrom('AND stream = $2 AND version = $3') };

export const LEAF_HASHES = {
  name: 'audit_leaf_hashes',
  text: `SELECT leaf_hash AS hash FROM audit.leaves
         WHERE tenant_id = $1 AND leaf_index >= $2 AND leaf_index < $3 ORDER BY leaf_index`,
};

export const NODE_HASHES = {
  name: 'audit_node_hashes',
  text: `SELECT hash FROM audit.nodes
         WHERE tenant_id = $1 AND level = $2 AND node_index >= $3 AND node_index < $4 ORDER BY node_index`,
};

export async function tenantsWithLogs(pool: Pool): Promise<number[]> {
  const { rows } = await pool.query<{ id: number }>('SELECT tenant_id AS id FROM audit.logs ORDER BY tenant_id');
  return rows.map(({ id }) => id);
}
