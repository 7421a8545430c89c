import type { ClientBase } from 'pg';

/** Rows at one go: few enough to be gone before the garbage collector takes them for long-lived. */
const FETCH = 100;
/** A leaf of the log with its event; null where the event is gone. */
export interface LeafRow {
  index: number;
  stream: string;
  version: number;
  sealedUs: number;
  signature: Buffer;
  leafHash: Buffer;
  eventId: string | null;
  type: string;
  actor: string;
  occurredUs: number;
  body: string;
  prevHash: Buffer;
  eventHash: Buffer;
  format: number;
  beforeHash: Buffer | null;
}

/** An event without a leaf. */
export interface UnsealedRow extends Omit<LeafRow, 'index' | 'sealedUs' | 'signature' | 'leafHash'> {
  eventId: string;
  isQueued: boolean;
}

const EVENT = `e.event_id AS "eventId", e.type, e.actor, e.occurred_us AS "occurredUs", e.body,
  e.prev_hash AS "prevHash", e.event_hash AS "eventHash", e.format`;

/** A tenant's events as the database holds them, for a verification: in one transaction, a few at a time. */
export class StoredEvents {
  constructor(
    private readonly client: ClientBase,
    private readonly tenantId: number,
  ) {}

  /** The log from a leaf on, in its order. Where it isn't read from the start, with the hash of each event's predecessor. */
  async *leaves(from: number): AsyncGenerator<LeafRow[], void> {
    const isWhole = from === 0;
    await this.client.query(`
      DECLARE audit_leaves NO SCROLL CURSOR FOR
      SELECT l.leaf_index AS index, l.stream, l.version, l.sealed_us AS "sealedUs", l.signature, l.leaf_hash AS "leafHash", ${EVENT},
             ${isWhole ? 'NULL::bytea' : 'b.event_hash'} AS "beforeHash"
      FROM audit.leaves l
      LEFT JOIN audit.events e ON e.tenant_id = l.tenant_id AND e.stream = l.stream AND e.version = l.version
      ${isWhole ? '' : 'LEFT JOIN audit.events b ON b.tenant_id = l.tenant_id AND b.stream = l.stream AND b.version = l.version - 1'}
      WHERE l.tenant_id = ${this.tenantId} AND l.leaf_index >= ${from} ORDER BY l.leaf_index`);
    yield* this.fetch<LeafRow>('audit_leaves');
  }

  /** Events without a leaf, by stream and version. */
  async *unsealed(): AsyncGenerator<UnsealedRow[], void> {
    await this.client.query(`
      DECLARE audit_unsealed NO SCROLL CURSOR FOR
      SELECT e.stream, e.version, ${EVENT}, b.event_hash AS "beforeHash", q.tenant_id IS NOT NULL AS "isQueued"
      FROM audit.events e
      LEFT JOIN audit.leaves l ON l.tenant_id = e.tenant_id AND l.stream = e.stream AND l.version = e.version
      LEFT JOIN audit.queue q ON q.tenant_id = e.tenant_id AND q.stream = e.stream AND q.version = e.version
      LEFT JOIN audit.events b ON b.tenant_id = e.tenant_id AND b.stream = e.stream AND b.version = e.version - 1
      WHERE e.tenant_id = ${this.tenantId} AND l.tenant_id IS NULL ORDER BY e.stream, e.version`);
    yield* this.fetch<UnsealedRow>('audit_unsealed');
  }

  /** Checkpoints of these sizes: size to note. */
  async checkpointsBetween(first: number, last: number): Promise<Map<number, string>> {
    const { rows } = await this.client.query<{ size: number; note: string }>({
      name: 'audit_checkpoints_between',
      text: 'SELECT size, note FROM audit.checkpoints WHERE tenant_id = $1 AND size BETWEEN $2 AND $3',
      values: [this.tenantId, first, last],
    });
    return new Map(rows.map(({ size, note }) => [size, note]));
  }

  async hasStream(stream: string): Promise<boolean> {
    const { rows } = await this.client.query('SELECT FROM audit.events WHERE tenant_id = $1 AND stream = $2 LIMIT 1', [
      this.tenantId,
      stream,
    ]);
    return rows.length > 0;
  }

  private async *fetch<Row extends object>(cursor: string): AsyncGenerator<Row[], void> {
    for (;;) {
      const { rows } = await this.client.query<Row>({ name: `${cursor}_fetch`, text: `FETCH ${FETCH} FROM ${cursor}` });
      if (rows.length === 0) break;
      yield rows;
    }
    await this.client.query(`CLOSE ${cursor}`);
  }
}
