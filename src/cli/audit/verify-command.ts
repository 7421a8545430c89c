import { createReadStream } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { type Command } from 'commander';
import { tenantsToVerify, UnreadableExport, type VerificationResult, verifyExport } from '../../audit/tools.js';
import { parseDuration } from '../../config/values.js';
import { Progress } from '../progress.js';
import { collect } from './options.js';
import { verifyReceiptFile } from './receipt.js';
import { readTenant, verifierFor, withAuditTools } from './audit-tools.js';
import { showUnreadable, showVerification } from './show-verification.js';
import { readTrust, type VerificationTrust } from './verification-trust.js';

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
  lateAfter?: number;
  json?: boolean;
}

const EXIT: Record<VerificationResult['verdict'], number> = { intact: 0, tampered: 1, unverifiable: 2 };
const UNREADABLE = 2;

export function addVerifyCommand(audit: Command): void {
  audit
    .command('verify')
    .description('Verify the history: in the database, or in an export with nothing but a public key')
    .option('--export <file>', 'an export to verify without any database; - reads standard input')
    .option(
      '--vkey <key>',
      'verifier key to trust, as `waybill audit keys` prints it, also KEY@SIZE; may be repeated',
      collect,
      [],
    )
    .option('--checkpoint <file>', 'a checkpoint that you kept; may be repeated', collect, [])
    .option('--receipt <file>', 'a receipt for one event, to verify with nothing but keys; - reads standard input')
    .option('--witness <vkey>', 'a witness whose cosignature must be there; may be repeated', collect, [])
    .option('--quorum <n>', 'how many of the witnesses must have cosigned; all of them without it')
    .option('--tenant <id>', 'only this tenant of the database', readTenant)
    .option('--incremental', 'read only what came after the last verification that found everything intact')
    .option('--no-signatures', 'check hashes and chains only, which is several times as quick')
    .option('--no-state', 'leave out whether orders are what their last events say')
    .option(
      '--late-after <duration>',
      'report events that were sealed so long after they occurred; a day',
      readDuration,
    )
    .option('--json', 'print each result as a JSON document')
    .addHelpText('after', '\nExit code: 0 intact, 1 tampered, 2 unverifiable or unreadable.')
    .action(async (options: VerifyOptions) => {
      try {
        process.exitCode = await verify(options);
      } catch (error) {
        if (error instanceof UnreadableExport) showUnreadable(error, options.export ?? 'waybill audit verify', options);
        else console.error(`unreadable: ${error instanceof Error ? error.message : String(error)}`);
        process.exitCode = UNREADABLE;
      }
    });
}

async function verify(options: VerifyOptions): Promise<number> {
  // Nothing outlives its event but the ends of streams: a space for young objects that grows would be 40 MB for nothing.
  setFlagsFromString('--semi-space-growth-factor=1');
  if (options.receipt !== undefined) return verifyReceiptFile(options.receipt, options);
  const trust = await readTrust(options);
  if (options.export === undefined) return verifyInDatabase(options, trust);

  if (trust.trusted.length === 0)
    throw new Error('--export needs --vkey: without a key from elsewhere an export proves nothing');
  const stream = options.export === '-' ? process.stdin : createReadStream(options.export);
  const { signatures: checkSignatures, lateAfter } = options;
  const result = await withProgress((onProgress) =>
    verifyExport(stream, { ...trust, checkSignatures, lateAfter }, onProgress),
  );
  showVerification(result, options);
  return EXIT[result.verdict];
}

function verifyInDatabase(
  { tenant, incremental, state, signatures: checkSignatures, lateAfter, json }: VerifyOptions,
  trust: VerificationTrust,
): Promise<number> {
  return withAuditTools(async (tools) => {
    const verifier = verifierFor(tools);
    let exit = 0;
    for (const id of tenant === undefined ? await tenantsToVerify(tools.pool, tools.directory) : [tenant]) {
      const result = await withProgress((onProgress) =>
        verifier.verify(id, { ...trust, checkSignatures, incremental, skipState: !state, lateAfter, onProgress }),
      );
      showVerification(result, { json });
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

/** For commander. @returns milliseconds */
function readDuration(text: string): number {
  const seconds = parseDuration(text);
  if (seconds === undefined)
    throw new Error(`--late-after must be a duration such as 30s, 15m, 24h or 7d, not "${text}"`);
  return seconds * 1000;
}
