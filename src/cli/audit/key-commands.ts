import { access, rename } from 'node:fs/promises';
import type { Command } from 'commander';
import {
  ensureSigningKey,
  LogStore,
  readSigningKey,
  rotateKey,
  tenantsWithLogs,
  verifierKeyText,
} from '../../audit/tools.js';
import { inPoolTransaction } from '../../database/transaction.js';
import { embeddedKeyFile } from '../../signing-key.js';
import { type AuditTools, sealingTools, withAuditTools } from './audit-tools.js';

export function addKeyCommands(audit: Command): void {
  audit
    .command('keys')
    .description('Print the verifier keys of every log, with the first event that each one seals')
    .action(() => withAuditTools(printKeys));
  audit
    .command('rotate-key')
    .description('Make every log go on with another signing key; the one in force must still be at hand')
    .option('--new-key <file>', 'PEM file of the new key; it is made when it is not there')
    .action(({ newKey }: { newKey?: string }) => withAuditTools((tools) => rotate(tools, newKey)));
}

async function printKeys({ pool }: AuditTools): Promise<void> {
  for (const tenantId of await tenantsWithLogs(pool)) {
    await inPoolTransaction(pool, async (client) => {
      const store = new LogStore(client, tenantId);
      const origin = (await store.origin()) ?? '';
      for (const { validFrom, publicKey } of await store.keys())
        console.log(`${verifierKeyText(origin, publicKey)}  from ${validFrom}`);
    });
  }
}

async function rotate(tools: AuditTools, given: string | undefined): Promise<void> {
  const { config } = tools;
  const isOwn = config.audit.signingKey === null;
  const current = embeddedKeyFile(config.dataDir);
  const file = given ?? (isOwn ? `${current}.next` : undefined);
  if (!file) throw new Error('--new-key is missing: say which file holds the new key, or is to hold it');
  if (await ensureSigningKey(file)) console.log(`Made a new key: ${file}`);
  const next = readSigningKey({ file });
  const sealing = sealingTools(tools);
  for (const tenantId of await tenantsWithLogs(tools.pool)) {
    const hasChanged = await rotateKey(sealing, tenantId, next);
    console.log(`Tenant ${tenantId}: ${hasChanged ? 'goes on with the new key' : 'has it already'}`);
  }
  if (isOwn && given === undefined) await replaceOwnKey(current, file);
  else
    console.log(
      `Now set AUDIT_SIGNING_KEY_FILE=${file} for every process, or put the new key in the place of the old.`,
    );
}

/** The old key is kept: nothing needs it any more, but a person may want to know what it was. */
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
