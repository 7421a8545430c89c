import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, type Pool, type QueryResultRow } from 'pg';
import { originOf } from '../../src/audit/format/checkpoint.js';
import { deriveLogKeys, type LogKeys } from '../../src/audit/format/log-keys.js';
import { type NoteVerifier, verifierOf } from '../../src/audit/format/signed-note.js';
import { generateSigningKey, parseSigningKey } from '../../src/audit/format/signing-key.js';
import { CheckpointDirectory } from '../../src/audit/log/checkpoint-directory.js';
import { KnownEdges } from '../../src/audit/log/known-edges.js';
import { publishCheckpoint } from '../../src/audit/log/publish-checkpoint.js';
import { sealBatch, type SealingTools } from '../../src/audit/log/seal-batch.js';
import { sealerPool } from '../../src/audit/log/sealer-pool.js';
import { SigningKeys } from '../../src/audit/log/signing-keys.js';
import type { VerificationResult } from '../../src/audit/verify/fault.js';
import { type DatabaseTrust, verifyDatabase, verifyWithin } from '../../src/audit/verify/verify-database.js';
import { VALUE_TYPES } from '../../src/database/value-types.js';
import type { TestDatabase } from './database.js';

export type VerifyOptions = Partial<DatabaseTrust> & { tenantId?: number };

/** A sealer without a service around it, with a key and a directory of its own. */
export interface Sealing {
  tools: SealingTools;
  pool: Pool;
  directory: CheckpointDirectory & { path: string };
  pem: string;
  /** The public key, as an auditor would keep it. */
  trusted: NoteVerifier[];
  /** Seals and publishes until the tenant's queue is empty. @returns how many events */
  seal(tenantId?: number, batchSize?: number): Promise<number>;
  verify(options?: VerifyOptions): Promise<VerificationResult>;
  /** Runs a statement as the server's superuser. */
  sql<Row extends QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  /** The same with every trigger off, foreign keys included: what somebody with the whole server could do. */
  tamper(text: string): Promise<void>;
  /** Tampers so, verifies once with each of these options, and takes it back: the database stays as it was. */
  verifyTampered(text: string, ...each: VerifyOptions[]): Promise<VerificationResult[]>;
  close(): Promise<void>;
}

export const ORIGIN = 'audit.test';

/** What a demo tenant's log has to tell before anything happens: its five users, their four keys, the rules of three machines. */
export const EVENTS_OF_A_NEW_TENANT = 12;
/** What a test's app adds when it starts on a database that had one before: the demo keys are revoked and made again. */
export const EVENTS_OF_A_START = 8;

export async function startSealing(database: TestDatabase, pem = generateSigningKey()): Promise<Sealing> {
  const path = await mkdtemp(join(tmpdir(), 'waybill-checkpoints-'));
  const directory = new CheckpointDirectory(path);
  const pool = sealerPool(database.sealerUrl, { size: 4 });
  const keys = keysOf(pem);
  const tools: SealingTools = { pool, keys, origin: ORIGIN, directory, edges: new KnownEdges() };
  const asSuperuser = async <T>(work: (client: Client) => Promise<T>): Promise<T> => {
    const client = new Client({ connectionString: database.superuserUrl, types: VALUE_TYPES });
    await client.connect();
    return work(client).finally(() => client.end());
  };
  const defaults = (tenantId: number): DatabaseTrust => ({
    trusted: trustedOf(pem),
    directory,
    overdueAfter: 10_000,
    defaultOrigin: originOf(ORIGIN, tenantId),
  });
  return {
    tools,
    pool,
    directory,
    pem,
    trusted: trustedOf(pem),
    seal: async (tenantId = 1, batchSize) => {
      let total = 0;
      for (let sealed: number | null = 1; sealed; total += sealed ?? 0) {
        sealed = await sealBatch(tools, tenantId, batchSize);
        if (sealed) await publishCheckpoint(tools, tenantId);
      }
      return total;
    },
    verify: ({ tenantId = 1, ...trust } = {}) => verifyDatabase(pool, tenantId, { ...defaults(tenantId), ...trust }),
    sql: async <Row extends QueryResultRow>(text: string, values: unknown[] = []) =>
      asSuperuser(async (client) => (await client.query<Row>(text, values)).rows),
    tamper: (text) =>
      asSuperuser(async (client) => {
        await client.query(
          `BEGIN; ${triggers('DISABLE TRIGGER ALL')}; ${text}; ${triggers('ENABLE TRIGGER ALL')}; COMMIT`,
        );
      }),
    verifyTampered: (text, ...each) =>
      asSuperuser(async (client) => {
        await client.query(`BEGIN; ${triggers('DISABLE TRIGGER ALL')}; ${text}; SET LOCAL ROLE waybill_sealer`);
        const results = [];
        for (const { tenantId = 1, ...trust } of each) {
          await client.query('SAVEPOINT tampered');
          results.push(await verifyWithin(client, tenantId, { ...defaults(tenantId), ...trust }));
          await client.query('ROLLBACK TO tampered');
        }
        await client.query('ROLLBACK');
        return results;
      }),
    close: async () => {
      await pool.end();
      await rm(path, { recursive: true, force: true });
    },
  };
}

export function keysOf(pem: string): SigningKeys {
  return new SigningKeys({ root: { pem }, folder: null });
}

/** The keys of a tenant's log. */
export function logKeysOf(pem: string, tenantId = 1): LogKeys {
  return deriveLogKeys(parseSigningKey(pem), tenantId);
}

/** What an auditor of a tenant's log keeps. */
export function verifierKeyOf(pem: string, tenantId = 1, generation = 1): NoteVerifier {
  return verifierOf(originOf(ORIGIN, tenantId, generation), logKeysOf(pem, tenantId).checkpoints.publicKey);
}

function trustedOf(pem: string): NoteVerifier[] {
  return [1, 2].map((tenant) => verifierKeyOf(pem, tenant));
}

function triggers(action: string): string {
  return `
    DO $$
    DECLARE t regclass;
    BEGIN
      FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace IN ('audit'::regnamespace, 'waybill'::regnamespace)
      LOOP EXECUTE format('ALTER TABLE %s ${action}', t); END LOOP;
    END $$`;
}

/** Settings of a service that seals by itself, every 50 ms, with a key and a directory of its own. */
export async function sealerSettings(
  pem = generateSigningKey(),
): Promise<Record<string, string> & { AUDIT_CHECKPOINT_DIR: string }> {
  return {
    AUDIT_SEAL_INTERVAL: '50ms',
    AUDIT_SIGNING_KEY: pem,
    AUDIT_ORIGIN: ORIGIN,
    AUDIT_CHECKPOINT_DIR: await mkdtemp(join(tmpdir(), 'waybill-checkpoints-')),
  };
}
