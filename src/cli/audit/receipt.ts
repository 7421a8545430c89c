import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { parseVerifierKey, ReceiptRefused, verifyReceipt, type VerifiedReceipt } from '../../audit/tools.js';
import { readTrustedWitnesses } from './options.js';

export interface ReceiptOptions {
  vkey: readonly string[];
  witness: readonly string[];
  quorum?: string;
  json?: boolean;
}

const EXIT = { tampered: 1, unverifiable: 2 };

/**
 * Verifies a receipt with nothing but keys, and shows the event that it is for.
 *
 * @param file - reads standard input
 * @returns the exit code
 */
export async function verifyReceiptFile(file: string, options: ReceiptOptions): Promise<number> {
  if (options.vkey.length === 0)
    throw new Error('--receipt needs --vkey: without a key from elsewhere a receipt proves nothing');
  const trust = { keys: options.vkey.map((key) => parseVerifierKey(key)), ...readTrustedWitnesses(options) };
  const receipt = file === '-' ? await text(process.stdin) : await readFile(file, 'utf8');
  try {
    show(verifyReceipt(receipt, trust), options);
    return 0;
  } catch (error) {
    if (!(error instanceof ReceiptRefused)) throw error;
    const { verdict, code, message } = error;
    console.log(
      options.json ? JSON.stringify({ verdict, code, detail: message }) : `${verdict}, ${code}\n  ${message}`,
    );
    return EXIT[verdict];
  }
}

function show({ origin, size, index, entry, eventHash, cosignedBy }: VerifiedReceipt, { json }: ReceiptOptions): void {
  const { tenantId, stream, version, type, actor, eventId, body } = entry.event;
  const occurredAt = timeOf(entry.event.occurredUs);
  const sealedAt = timeOf(entry.sealedUs);
  const cosigned = cosignedBy.map(({ name, timestamp }) => ({ witness: name, at: timeOf(timestamp * 1_000_000) }));
  if (json) {
    const event = { tenantId, stream, version, eventId, type, actor, occurredAt, body };
    const shown = {
      verdict: 'intact',
      origin,
      size,
      index,
      eventHash: eventHash.toString('hex'),
      event,
      sealedAt,
      cosigned,
    };
    console.log(JSON.stringify(shown));
    return;
  }
  console.log(`${origin}: intact`);
  console.log(`  ${type} of ${stream}, version ${version}, by ${actor}`);
  console.log(`  occurred ${occurredAt}, sealed ${sealedAt} as leaf ${index} of ${size}`);
  console.log(`  event hash ${eventHash.toString('hex')}`);
  for (const { witness, at } of cosigned) console.log(`  cosigned by ${witness} at ${at}`);
  console.log(`  ${body}`);
}

/** RFC 3339, to the millisecond. */
function timeOf(microseconds: number): string {
  return new Date(microseconds / 1000).toISOString();
}
