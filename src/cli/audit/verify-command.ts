import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setFlagsFromString } from 'node:v8';
import { type Command } from 'commander';
import { parseVerifierKey, readUnverified, type VerificationResult, verifyExport } from '../../audit/tools.js';
import { Progress } from '../progress.js';
import { collect, readTrustedWitnesses } from './options.js';
import { verifyReceiptFile } from './receipt.js';
import { allTenants, readTenant, verifierFor, withAuditTools } from './audit-tools.js';

interface VerifyOptions {
  export?: string;
  receipt?: string;
  witness: string[];
  quorum?: string;
  vkey: string[];
  checkpoint: string[];
  tenant?: number;
  incremental?: boolean;
  signatures: boolean;
  state: boolean;
  json?: boolean;
}

const EXIT: Record<VerificationResult['verdict'], number> = { intact: 0, tampered: 1, unverifiable: 2 };
const UNREADABLE = 2;

export function addVerifyCommand(audit: Command): void {
  audit
    .command('verify')
    .description('Verify the history: in the database, or in an export with nothing but a public key')
    .option('--export <file>', 'an export to verify without any database; - reads standard input')
    .option('--vkey <key>', 'verifier key to trust, as `waybill audit keys` prints it; may be repeated', collect, [])
    .option('--checkpoint <file>', 'a checkpoint that you kept; may be repeated', collect, [])
    .option('--receipt <file>', 'a receipt for one event, to verify with nothing but keys; - reads standard input')
    .option('--witness <vkey>', 'a witness whose cosignature must be there; may be repeated', collect, [])
    .option('--quorum <n>', 'how many of the witnesses must have cosigned; all of them without it')
    .option('--tenant <id>', 'only this tenant of the database', readTenant)
    .option('--incremental', 'read only what came after the last verification that found everything intact')
    .option('--no-signatures', 'check hashes and chains only, which is several times as quick')
    .option('--no-state', 'leave out whether orders are what their last events say')
    .option('--json', 'print each result as a JSON document')
    .addHelpText('after', '\nExit code: 0 intact, 1 tampered, 2 unverifiable or unreadable.')
    .action(async (options: VerifyOptions) => {
      try {
        process.exitCode = await verify(options);
      } catch (error) {
        console.error(`unreadable: ${error instanceof Error ? error.message : String(error)}`);
        process.exitCode = UNREADABLE;
      }
    });
}

async function verify(options: VerifyOptions): Promise<number> {
  // Nothing outlives its event but the ends of streams: a space for young objects that grows would be 40 MB for nothing.
  setFlagsFromString('--semi-space-growth-factor=1');
  if (options.receipt !== undefined) return verifyReceiptFile(options.receipt, options);
  const trusted = options.vkey.map(parseVerifierKey);
  const checkpoints = await Promise.all(options.checkpoint.map((file) => readFile(file, 'utf8')));
  for (const note of checkpoints) readUnverified(note);
  const cosigned = readTrustedWitnesses(options);
  const trust = { trusted, checkpoints, checkSignatures: options.signatures, cosigned };
  if (options.export === undefined) return verifyInDatabase(options, trust);

  if (trusted.length === 0)
    throw new Error('--export needs --vkey: without a key from elsewhere an export proves nothing');
  const stream = options.export === '-' ? process.stdin : createReadStream(options.export);
  const result = await withProgress((onProgress) => verifyExport(stream, trust, onProgress));
  show(result, options);
  return EXIT[result.verdict];
}

function verifyInDatabase(
  { tenant, incremental, state, json }: VerifyOptions,
  trust: Parameters<typeof verifyExport>[1] & { checkpoints: string[] },
): Promise<number> {
  return withAuditTools(async (tools) => {
    const verifier = verifierFor(tools);
    let exit = 0;
    for (const id of tenant === undefined ? await allTenants(tools.pool) : [tenant]) {
      const result = await withProgress((onProgress) =>
        verifier.verify(id, { ...trust, incremental, skipState: !state, onProgress }),
      );
      show(result, { json });
      exit = worse(exit, EXIT[result.verdict]);
    }
    return exit;
  });
}

/** Tampering is the worst that can be said. */
function worse(one: number, other: number): number {
  return one === 1 || other === 1 ? 1 : Math.max(one, other);
}

async function withProgress<T>(work: (onProgress: (done: number, total: number) => void) => Promise<T>): Promise<T> {
  let progress: Progress | undefined;
  try {
    return await work((done, total) => {
      progress ??= new Progress('Verifying', total, process.stderr);
      progress.update(done, '');
    });
  } finally {
    progress?.finish();
  }
}

function show(result: VerificationResult, { json }: { json?: boolean }): void {
  if (json) {
    console.log(JSON.stringify(result));
    return;
  }
  const { verdict, fault, origin, size, streams, unsealed, fromIndex, root, breaks, late } = result;
  const number = (value: number): string => value.toLocaleString('en-US');
  console.log(`${origin}: ${verdict}${fault ? `, ${fault.code}` : ''}`);
  if (fault) {
    const place = [
      fault.index === undefined ? [] : `leaf ${fault.index}`,
      fault.stream === undefined ? [] : fault.stream,
      fault.version === undefined ? [] : `version ${fault.version}`,
    ].flat();
    console.log(`  ${fault.detail}${place.length > 0 ? ` (${place.join(', ')})` : ''}`);
  }
  if (fault) console.log(`  ${number(size)} events of ${number(streams)} streams were read before it`);
  else {
    console.log(
      `  ${number(size)} events in the log, ${number(streams)} streams read, ${number(unsealed)} not sealed yet`,
    );
    console.log(`  root ${root}`);
  }
  if (fromIndex > 0) console.log(`  the first ${number(fromIndex)} events were verified earlier and not read again`);
  if (!result.signaturesChecked) console.log('  signatures were not checked');
  if (late) console.log(`  ${lateLine(late)}`);
  for (const { index, abandonedSize } of breaks)
    console.log(
      `  leaf ${index} says that the log was restored to an older state: ${number(abandonedSize)} events had been published before`,
    );
}

function lateLine({ count, firstIndex, greatestSeconds }: NonNullable<VerificationResult['late']>): string {
  const number = count.toLocaleString('en-US');
  return `${number} events were sealed more than a day after they occurred, up to ${Math.floor(greatestSeconds / 86_400)} days; the first is leaf ${firstIndex}`;
}
