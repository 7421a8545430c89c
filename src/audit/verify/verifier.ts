import { randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import { originOf } from '../format/checkpoint.js';
import { NoteError, type NoteVerifier, verifierOf } from '../format/signed-note.js';
import type { CheckpointDirectory } from '../log/checkpoint-directory.js';
import { LogStore } from '../log/log-store.js';
import { type KeyHolder, openCheckpoint } from '../log/open-log.js';
import { inPoolTransaction } from '../../database/transaction.js';
import type { VerificationResult } from './fault.js';
import type { WitnessTrust } from './witness-check.js';
import { verifyDatabase } from './verify-database.js';

const OVERDUE_INTERVALS = 10;
/** Milliseconds. */
const INTERVAL_ELSEWHERE = 1000;

/**
 * Milliseconds after which nobody can say that the sealer is merely behind.
 *
 * @param sealInterval milliseconds between two sealings; null where another process seals
 */
export function overdueAfter(sealInterval: number | null): number {
  return OVERDUE_INTERVALS * (sealInterval ?? INTERVAL_ELSEWHERE);
}

export interface VerifierTools {
  /** Connections of the role `waybill_sealer`, without time limits. */
  pool: Pool;
  /** First part of every log's name. */
  origin: string;
  directory: CheckpointDirectory | null;
  /** Keys that are trusted, by tenant. */
  keys: KeyHolder | null;
  /** Milliseconds after which an unsealed event is overdue. */
  overdueAfter: number;
}

export interface VerifyOptions {
  id?: string;
  /** RFC 3339. */
  startedAt?: string;
  /** Reads only what came after the last verification that found everything intact. */
  incremental?: boolean;
  checkSignatures?: boolean;
  /** Witnesses of the checkpoint that was published last. */
  cosigned?: WitnessTrust;
  skipState?: boolean;
  /** Keys that are trusted besides, with the names that they sign under. */
  trusted?: readonly NoteVerifier[];
  checkpoints?: readonly string[];
  /** Milliseconds from an event to its sealing from which on it is reported as late. */
  lateAfter?: number;
  onProgress?: (done: number, total: number) => void;
}

/** Verifies tenants of a database and keeps the results there. */
export class Verifier {
  private isStopping = false;

  constructor(private readonly tools: VerifierTools) {}

  async verify(tenantId: number, options: VerifyOptions = {}): Promise<VerificationResult> {
    const { pool, origin, directory, keys, overdueAfter } = this.tools;
    const startedAt = options.startedAt ?? new Date().toISOString();
    const name = await inPoolTransaction(pool, (client) => new LogStore(client, tenantId).origin());
    const trusted = [
      ...(keys ? [verifierOf(name ?? originOf(origin, tenantId), keys.of(tenantId).checkpoints.publicKey)] : []),
      ...(options.trusted ?? []),
    ];
    const since = options.incremental ? await this.lastIntact(tenantId, trusted) : undefined;
    const { checkpoints, checkSignatures, cosigned, skipState, lateAfter } = options;
    const result = await verifyDatabase(
      pool,
      tenantId,
      {
        trusted,
        directory,
        checkpoints,
        checkSignatures,
        cosigned,
        skipState,
        lateAfter,
        since,
        overdueAfter,
        defaultOrigin: originOf(origin, tenantId),
      },
      (done, total) => {
        if (this.isStopping) throw new Error('the service stops');
        options.onProgress?.(done, total);
      },
    );
    await this.keep(tenantId, { id: options.id ?? randomUUID(), startedAt, result });
    return result;
  }

  /** Breaks running verifications off. */
  stop(): void {
    this.isStopping = true;
  }

  /** Where the last one ended, if a trusted key signed the checkpoint of that place. */
  private async lastIntact(
    tenantId: number,
    trusted: readonly NoteVerifier[],
  ): Promise<{ size: number; root: Buffer } | undefined> {
    const { rows } = await this.tools.pool.query<{ size: number; root: Buffer; note: string }>(
      `SELECT c.size, c.root, c.note FROM audit.verifications v
       JOIN audit.checkpoints c ON c.tenant_id = v.tenant_id AND c.size = v.size AND c.root = v.root
       WHERE v.tenant_id = $1 AND v.verdict = 'intact' AND v.result @> '{"signaturesChecked": true}'
       ORDER BY v.size DESC LIMIT 1`,
      [tenantId],
    );
    const [last] = rows;
    if (!last) return undefined;
    try {
      const { size, root } = openCheckpoint(last.note, trusted);
      return size === last.size && root.equals(last.root) ? { size, root } : undefined;
    } catch (error) {
      if (error instanceof NoteError) return undefined; // nobody here knows who signed it
      throw error;
    }
  }

  private async keep(
    tenantId: number,
    { id, startedAt, result }: { id: string; startedAt: string; result: VerificationResult },
  ): Promise<void> {
    const { tenantId: _tenant, ...shown } = result;
    await this.tools.pool.query(
      `INSERT INTO audit.verifications (tenant_id, id, started_at, finished_at, verdict, from_index, size, root, result)
       VALUES ($1, $2, $3, greatest($3::timestamptz, clock_timestamp()), $4, $5, $6, $7, $8)`,
      [tenantId, id, startedAt, result.verdict, result.fromIndex, result.size, Buffer.from(result.root, 'hex'), shown],
    );
  }
}
