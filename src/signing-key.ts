import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointDirectory, ensureSigningKey, type SigningKeySource } from './audit/tools.js';
import type { Config } from './config.js';
import { withClient } from './database/client.js';

/** Where the embedded default keeps the key that it makes. */
export function embeddedKeyFile(dataDir: string): string {
  return join(dataDir, 'audit-signing-key.pem');
}

/**
 * The signing key that the settings name. Where none is named, an embedded server gets one of its own, and any other
 * database has none: a key that appears by itself in production would be nobody's. Nor is one made where logs are that another
 * key has sealed: no other can continue them.
 *
 * @param sealerUrl address of `waybill_sealer`, who sees all logs
 */
export async function resolveSigningKey(
  config: Config,
  sealerUrl: string | null,
  log: (line: string) => void,
): Promise<SigningKeySource | null> {
  if (config.audit.signingKey || config.database) return config.audit.signingKey;
  const lost = sealerUrl && (await lostKey(config, sealerUrl));
  if (lost) {
    log(`${lost.detail}. ${lost.whatToDo}`);
    return null;
  }
  const file = embeddedKeyFile(config.dataDir);
  if (await ensureSigningKey(file)) {
    log(`Made a signing key for the audit log: ${file}. Keep a copy; whoever holds it can seal in your name.`);
  }
  return { root: { file }, folder: null };
}

/** The embedded default's key when it is gone, though logs are there that it sealed: what follows, and what to do. */
export async function lostKey(
  config: Config,
  sealerUrl: string,
): Promise<{ detail: string; whatToDo: string } | undefined> {
  if (config.audit.signingKey || config.database) return undefined;
  const file = embeddedKeyFile(config.dataDir);
  if (await isThere(file)) return undefined;
  const tenants = await sealedTenants(sealerUrl);
  if (tenants.length === 0) return undefined;
  return {
    detail:
      `The signing key ${file} is gone, and it sealed the history of tenants ${tenants.join(', ')}, which no other key can continue. ` +
      'Orders are taken all the same; their events wait unsealed. What is sealed can still be verified with the public key',
    whatToDo:
      'Put the file back from your copy and start again; what waits is sealed then. If there is none, keep an export ' +
      '(`waybill audit export`) and the published checkpoints as proof up to here, and begin anew in another WAYBILL_DATA_DIR.',
  };
}

/** Says so where checkpoints were published and none of a tenant is in the folder. */
export async function tellOfLostCheckpoints(
  sealerUrl: string,
  folder: string,
  log: (line: string) => void,
): Promise<void> {
  const directory = new CheckpointDirectory(folder);
  const without: number[] = [];
  for (const tenant of await sealedTenants(sealerUrl)) if (!(await directory.read(tenant))) without.push(tenant);
  if (without.length === 0) return;
  log(
    `The folder of published checkpoints ${folder} has none of tenants ${without.join(', ')}, whose history is sealed. ` +
      'Without them nobody can tell whether a log was cut or rewritten before now, so the sealer refuses it: orders are taken, ' +
      'their events wait unsealed. Put them back from a copy, or set AUDIT_CHECKPOINT_DIR to where they are. If they are gone ' +
      'for good, run `waybill audit verify` with every checkpoint that somebody kept, and then `waybill audit publish --first`.',
  );
}

function sealedTenants(sealerUrl: string): Promise<number[]> {
  return withClient({ connectionString: sealerUrl, application_name: 'waybill start' }, async (client) => {
    const made = await client.query<{ exists: boolean }>(`SELECT to_regclass('audit.leaves') IS NOT NULL AS exists`);
    if (!made.rows[0]?.exists) return [];
    const { rows } = await client.query<{ id: number }>(
      `SELECT t.id FROM waybill.tenants t WHERE EXISTS (SELECT FROM audit.leaves l WHERE l.tenant_id = t.id) ORDER BY 1`,
    );
    return rows.map(({ id }) => id);
  });
}

function isThere(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
