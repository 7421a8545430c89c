import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import {
  exportSource,
  LogStore,
  publishCheckpoint,
  readUnverified,
  resumeLog,
  tenantsWithLogs,
  writeExport,
} from '../../audit/tools.js';
import { inPoolTransaction } from '../../database/transaction.js';
import { addKeyCommands } from './key-commands.js';
import { addVerifyCommand } from './verify-command.js';
import { addWatchCommand } from './watch-command.js';
import { addWitnessCommand } from './witness-command.js';
import { orHeld, readTenant, sealingTools, tenantOf, withAuditTools } from './audit-tools.js';

export function addAuditCommand(program: Command): void {
  const audit = program.command('audit').description('The audit log: verify, export, checkpoints, keys');
  addVerifyCommand(audit);
  audit
    .command('export')
    .description("Write a tenant's log up to its latest checkpoint, for offline verification")
    .requiredOption('--tenant <id>', 'the tenant', readTenant)
    .option('--output <file>', 'where to; standard output without it')
    .action(writeLog);
  audit
    .command('checkpoint')
    .description("Print a tenant's latest checkpoint, a signed note to keep elsewhere")
    .requiredOption('--tenant <id>', 'the tenant', readTenant)
    .action(printCheckpoint);
  audit
    .command('publish')
    .description('Publish the last checkpoint of each log that is not published yet, as the sealer does')
    .option('--tenant <id>', 'only the log of this tenant', readTenant)
    .option(
      '--first',
      'also where nothing of a log was ever published in AUDIT_CHECKPOINT_DIR, which the sealer refuses',
    )
    .action(publish);
  addKeyCommands(audit);
  audit
    .command('resume')
    .description('Let a log go on after a legitimate restore; the break is logged, and every verification reports it')
    .requiredOption('--from-checkpoint <file>', 'the published checkpoint that the log no longer meets')
    .action(resume);
  addWitnessCommand(audit);
  addWatchCommand(audit);
}

function writeLog({ tenant, output }: { tenant: number; output?: string }): Promise<void> {
  return withAuditTools(async ({ pool }) => {
    const source = await exportSource(pool, tenant);
    if (!source) throw new Error(`Tenant ${tenant} has no log yet.`);
    const lines = Readable.from(writeExport(source), { objectMode: false });
    // Standard output stays open: it isn't ours to close.
    if (output === undefined) await pipeline(lines, process.stdout, { end: false });
    else await pipeline(lines, createWriteStream(output, { mode: 0o600 }));
  });
}

function printCheckpoint({ tenant }: { tenant: number }): Promise<void> {
  return withAuditTools(async ({ pool }) => {
    const last = await inPoolTransaction(pool, (client) => new LogStore(client, tenant).lastPublication());
    if (!last) throw new Error(`Nothing of tenant ${tenant} has been published yet.`);
    process.stdout.write(last.note);
  });
}

function publish({ tenant, first }: { tenant?: number; first?: boolean }): Promise<void> {
  return withAuditTools(async (tools) => {
    const { directory, pool } = tools;
    for (const tenantId of tenant === undefined ? await tenantsWithLogs(pool) : [tenant]) {
      const before = await directory.last(tenantId);
      await publishCheckpoint({ ...sealingTools(tools), isFirstPublication: first }, tenantId);
      const last = await directory.last(tenantId);
      if (!last) console.log(`Tenant ${tenantId} has no log yet.`);
      else if (last.note === before?.note)
        console.log(`${originIn(last.note)}: ${last.size} events, published already`);
      else console.log(`${originIn(last.note)}: ${last.size} events, ${directory.fileOf(tenantId, last)}`);
    }
  });
}

function originIn(note: string): string {
  return readUnverified(note).origin;
}

function resume({ fromCheckpoint }: { fromCheckpoint: string }): Promise<void> {
  return withAuditTools(async (tools) => {
    const note = await readFile(fromCheckpoint, 'utf8');
    const { origin } = readUnverified(note);
    const tenantId = tenantOf(origin, tools.settings.origin);
    if (tenantId === undefined)
      throw new Error(`The checkpoint is of the log ${origin}, which AUDIT_ORIGIN doesn't know.`);
    const resumed = await orHeld(null, () => resumeLog(sealingTools(tools), tenantId, note));
    if (!resumed) return;
    console.log(
      `The log goes on from ${resumed.size} events as ${resumed.origin}. The break is logged as leaf ${resumed.size}.`,
    );
    console.log('Hand out its new verifier key: `waybill audit keys`.');
  });
}
