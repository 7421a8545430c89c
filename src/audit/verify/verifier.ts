import { randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import { originOf } from '../format/checkpoint.js';
import { verifierOf } from '../format/signed-note.js';
import type { CheckpointDirectory } from '../log/checkpoint-directory.js';
import { LogStore } from '../log/log-store.js';
import type { KeyHolder } from '../log/open-log.js';
import { inPoolTransaction } from '../../database/transaction.js';
import { attest, isAttested, type Verified } from './attestation.js';
import type { VerificationResult } from './fault.js';
import type { TrustedKey } from './trusted-key.js';
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
  /** Reads only what came after the last verification that found everything intact, and that this signing key signed. */
  incremental?: boolean;
  checkSignatures?: boolean;
  /** Witnesses of the checkpoint that was published last. */
  cosigned?: WitnessTrust;
  skipState?: boolean;
  /** Keys that are trusted besides, with the names that they sign under. */
  trusted?: readonly TrustedKey[];
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
    const called = name ?? originOf(origin, tenantId);
    const trusted = [
      ...(keys ? [verifierOf(called, keys.of(tenantId).checkpoints.publicKey)] : []),
      ...(options.trusted ?? []),
    ];
    const since = options.incremental ? await this.lastIntact(tenantId, called) : undefined;
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

  /** Where the last one ended that found everything intact, and was signed: a row alone anybody may have written. */
  private async lastIntact(tenantId: number, origin: string): Promise<Verified | undefined> {
    const key = this.tools.keys?.of(tenantId).verifications;
    if (!key) return undefined;
    const { rows } = await this.tools.pool.query<Omit<Verified, 'origin'> & { signature: Buffer }>(
      `SELECT size, root, signature FROM audit.verifications
       WHERE tenant_id = $1 AND verdict = 'intact' AND signature IS NOT NULL ORDER BY size DESC, finished_at DESC LIMIT 10`,
      [tenantId],
    );
    return rows
      .map(({ size, root, signature }) => ({ verified: { origin, size, root }, signature }))
      .find(({ verified, signature }) => isAttested(key, verified, signature))?.verified;
  }

  private async keep(
    tenantId: number,
    { id, startedAt, result }: { id: string; startedAt: string; result: VerificationResult },
  ): Promise<void> {
    const { tenantId: _tenant, ...shown } = result;
    const { origin, verdict, fromIndex, size, signaturesChecked } = result;
    const root = Buffer.from(result.root, 'hex');
    const isProof = verdict === 'intact' && signaturesChecked && size > 0;
    const key = isProof ? this.tools.keys?.of(tenantId).verifications : undefined;
    const signature = key ? attest(key, { origin, size, root }) : null;
    await this.tools.pool.query(
      `INSERT INTO audit.verifications (tenant_id, id, started_at, finished_at, verdict, from_index, size, root, result, signature)
       VALUES ($1, $2, $3, greatest($3::timestamptz, clock_timestamp()), $4, $5, $6, $7, $8, $9)`,
      [tenantId, id, startedAt, verdict, fromIndex, size, root, shown, signature],
    );
  }
}
