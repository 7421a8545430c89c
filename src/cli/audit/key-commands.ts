import { access, rename } from 'node:fs/promises';
import type { Command } from 'commander';
import {
  deriveLogKeys,
  ensureSigningKey,
  LogStore,
  ownKeyFile,
  readSigningKey,
  rotateKey,
  SigningKeys,
  tenantsWithLogs,
  verifiedKeys,
  verifierKeyText,
} from '../../audit/tools.js';
import { inPoolTransaction } from '../../database/transaction.js';
import { embeddedKeyFile } from '../../signing-key.js';
import { collect } from './options.js';
import { type AuditTools, orHeld, readTenant, sealingTools, withAuditTools } from './audit-tools.js';

export function addKeyCommands(audit: Command): void {
  audit
    .command('keys')
    .description('Print the verifier keys of every log, with the first event that each one seals')
    .option('--vkey <key>', 'a key that you know, where no signing key is set', collect, [])
    .action(({ vkey }: { vkey: string[] }) => withAuditTools((tools) => printKeys(tools, vkey)));
  audit
    .command('rotate-key')
    .description('Make every log go on with another signing key; the one in force must still be at hand')
    .option('--new-key <file>', 'PEM file of the new key; it is made when it is not there')
    .option('--tenant <id>', 'only the log of this tenant, which then has a key of its own', readTenant)
    .action((options: RotateOptions) => withAuditTools((tools) => rotate(tools, options)));
}

interface RotateOptions {
  newKey?: string;
  tenant?: number;
}

async function printKeys({ pool, key }: AuditTools, vkeys: string[]): Promise<void> {
  const held = key && new SigningKeys(key);
  for (const tenantId of await tenantsWithLogs(pool)) {
    const reigns = await inPoolTransaction(
      pool,
      (client) => verifiedKeys(new LogStore(client, tenantId), held, vkeys),
      'read',
    );
    // One that was given up vouches for nothing beyond what it signed.
    for (const [at, { origin, checkpointKey, validFrom }] of reigns.entries()) {
      const next = reigns[at + 1];
      console.log(`${verifierKeyText(origin, checkpointKey)}${next ? `@${next.validFrom}` : ''}  from ${validFrom}`);
    }
  }
}

async function rotate(tools: AuditTools, { newKey: given, tenant }: RotateOptions): Promise<void> {
  const { config } = tools;
  const isEmbeddeds = config.audit.signingKey === null && tenant === undefined;
  const current = embeddedKeyFile(config.dataDir);
  const file = given ?? (isEmbeddeds ? `${current}.next` : undefined);
  if (!file) throw new Error('--new-key is missing: say which file holds the new key, or is to hold it');
  if (await ensureSigningKey(file)) console.log(`Made a new key: ${file}`);
  const next = readSigningKey({ file });
  const sealing = sealingTools(tools);
  for (const tenantId of tenant === undefined ? await tenantsWithLogs(tools.pool) : [tenant]) {
    if (tenant === undefined && sealing.keys.isOwn(tenantId)) {
      console.log(`Tenant ${tenantId}: has a key of its own, so --tenant ${tenantId} changes it`);
      continue;
    }
    const hasChanged = await orHeld(true, () => rotateKey(sealing, tenantId, deriveLogKeys(next, tenantId)));
    console.log(`Tenant ${tenantId}: ${hasChanged ? 'goes on with the new key' : 'has it already'}`);
  }
  if (isEmbeddeds && given === undefined) await replaceOwnKey(current, file);
  else console.log(whatToSet(file, tenant, config.audit.signingKey?.folder ?? null));
}

function whatToSet(file: string, tenant: number | undefined, folder: string | null): string {
  if (tenant === undefined)
    return `Now set AUDIT_SIGNING_KEY_FILE=${file} for every process, or put the new key in the place of the old.`;
  if (folder !== null) return `Now copy it to ${ownKeyFile(folder, tenant)}, where every process looks for it.`;
  return `Now set AUDIT_SIGNING_KEYS_DIR to a folder for every process, and copy the key into it as ${tenant}.pem.`;
}

/** The old key is kept: nothing needs it any more but a database that is restored to before the change. */
async function replaceOwnKey(current: string, next: string): Promise<void> {
  let count = 1;
  while (await exists(`${current}.old-${count}`)) count += 1;
  await rename(current, `${current}.old-${count}`);
  await rename(next, current);
  console.log(`The new key is in ${current}, the old one in ${current}.old-${count}`);
}

function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
