import type { Pool } from 'pg';
import {
  CheckpointDirectory,
  cosignWith,
  originOf,
  overdueAfter,
  QuorumMissed,
  type SealingTools,
  sealerPool,
  SigningKeys,
  type SigningKeySource,
  Verifier,
  Witnesses,
} from '../../audit/tools.js';
import { type AuditSettings, type Config, loadConfig } from '../../config.js';
import { resolveSigningKey } from '../../signing-key.js';
import { withDatabase } from '../database-address.js';

/** What the audit commands work with. */
export interface AuditTools {
  config: Config;
  settings: AuditSettings;
  pool: Pool;
  key: SigningKeySource | null;
  directory: CheckpointDirectory;
}

/** Runs a command's work with connections of `waybill_sealer`, which reads all tenants. */
export async function withAuditTools<T>(work: (tools: AuditTools) => Promise<T>): Promise<T> {
  const config = loadConfig();
  return withDatabase(async ({ sealerUrl }) => {
    if (!sealerUrl) throw new Error('SEALER_DATABASE_URL is not set. Set it to the address of waybill_sealer.');
    const key = await resolveSigningKey(config, sealerUrl, (line) => console.error(line));
    const pool = sealerPool(sealerUrl, { isPatient: true });
    const settings = config.audit;
    try {
      return await work({ config, settings, pool, key, directory: new CheckpointDirectory(settings.checkpointDir) });
    } finally {
      await pool.end();
    }
  });
}

/** @throws Error when there is no signing key */
export function sealingTools({ pool, key, settings, directory }: AuditTools): SealingTools & { keys: SigningKeys } {
  if (!key) throw new Error('AUDIT_SIGNING_KEY_FILE is not set. Set it to the PEM file of the key in force.');
  const cosign = settings.witnesses && cosignWith(new Witnesses(settings.witnesses));
  return { pool, keys: new SigningKeys(key), origin: settings.origin, directory, cosign };
}

/**
 * Work whose last part is a publication: where too few witnesses cosign, the rest is done and stays.
 *
 * @param otherwise what the work comes to then
 */
export async function orHeld<T>(otherwise: T, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof QuorumMissed)) throw error;
    console.error(
      `It is done, but not published yet: ${error.message}. The service publishes it as soon as they cosign.`,
    );
    return otherwise;
  }
}

export function verifierFor({ pool, key, settings, directory }: AuditTools): Verifier {
  return new Verifier({
    pool,
    origin: settings.origin,
    directory,
    keys: key && new SigningKeys(key),
    overdueAfter: overdueAfter(settings.sealInterval),
  });
}

/** The tenant of a log, as its name says; undefined when it isn't one of this service's. */
export function tenantOf(origin: string, base: string): number | undefined {
  const [tenant = Number.NaN, generation] = origin
    .slice(base.length + 1)
    .split('/')
    .map(Number);
  const isOwn = Number.isSafeInteger(tenant) && origin === originOf(base, tenant, generation);
  return isOwn ? tenant : undefined;
}

/** For commander: a tenant's id. */
export function readTenant(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new Error(`--tenant must be the id of a tenant, not "${text}"`);
  return Number(text);
}
