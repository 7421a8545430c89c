import { concat, equal, fromBase64, hex, leafHash, rootOf, utf8 } from './receipt-bytes.js';
import { parseReceiptEntry, type ReceiptEvent } from './receipt-entry.js';
import { parseNote, parseVerifierKey, type SignedNote, type VerifierKey } from './signed-note.js';

/** Whom to believe. Get the keys elsewhere than from the service whose receipts they are to check. */
export interface ReceiptTrust {
  /** Verifier keys of the log's checkpoints, as `waybill audit keys` prints them. */
  keys: readonly string[];
  /** Verifier keys of witnesses. */
  witnesses?: readonly string[];
  /** How many of the witnesses must have cosigned; all of them without it. */
  quorum?: number;
}

/** What a receipt proves. */
export interface VerifiedReceipt {
  /** Name of the log. */
  origin: string;
  /** Events in the log when its checkpoint was signed. */
  size: number;
  /** The event's place in the log. */
  index: number;
  event: ReceiptEvent;
  /** Witnesses that cosigned, and when. */
  cosignedBy: { name: string; at: Date }[];
}

export type ReceiptFault = 'UNREADABLE' | 'UNKNOWN_KEY' | 'BAD_SIGNATURE' | 'ROOT_MISMATCH' | 'NOT_WITNESSED';

/** The receipt proves nothing, for the reason that `code` names. */
export class ReceiptError extends Error {
  override readonly name = 'ReceiptError';

  constructor(
    readonly code: ReceiptFault,
    message: string,
  ) {
    super(message);
  }
}

const ED25519 = 1;
const COSIGNATURE = 4;

/**
 * Checks a receipt (`GET /v1/audit/receipt`) without asking anybody: that its event is in the log, as the log's key and the
 * witnesses have signed. Compare `event.eventHash` with the one that your write was answered with.
 *
 * @throws ReceiptError
 */
export async function verifyReceipt(receipt: string, trust: ReceiptTrust): Promise<VerifiedReceipt> {
  const keys = await Promise.all(trust.keys.map((key) => parseVerifierKey(key, ED25519)));
  const witnesses = await Promise.all((trust.witnesses ?? []).map((key) => parseVerifierKey(key, COSIGNATURE)));
  const { entry, index, hashes, checkpoint } = parseReceipt(receipt);
  const event = await parseReceiptEntry(entry);
  const note = parseNote(checkpoint);
  if (!event || !note) throw new ReceiptError('UNREADABLE', 'The file is not a receipt of Waybill.');

  const { origin, size, root } = readCheckpoint(note);
  if (!(await signers(note, keys)).some(({ name }) => name === origin)) {
    throw new ReceiptError(
      'UNKNOWN_KEY',
      `None of the given keys is that of the log ${origin} and signed its checkpoint.`,
    );
  }
  const cosignedBy = await cosigners(note, witnesses);
  const quorum = trust.quorum ?? witnesses.length;
  if (cosignedBy.length < quorum) {
    throw new ReceiptError('NOT_WITNESSED', `${cosignedBy.length} of the given witnesses cosigned, not ${quorum}.`);
  }
  const computed = await rootOf(await leafHash(entry), index, size, hashes);
  if (!computed || !equal(computed, root)) {
    throw new ReceiptError('ROOT_MISMATCH', `The event is not number ${index} of the log ${origin}.`);
  }
  return { origin, size, index, event, cosignedBy };
}

function parseReceipt(receipt: string) {
  const end = receipt.indexOf('\n\n');
  const [first, extra = '', number = '', ...lines] = receipt.slice(0, Math.max(end, 0)).split('\n');
  const entry = extra.startsWith('extra ') ? fromBase64(extra.slice('extra '.length)) : null;
  const index = /^index (0|[1-9]\d{0,15})$/.exec(number)?.[1];
  const hashes = lines.map(fromBase64);
  const isSound = first === 'c2sp.org/tlog-proof@v1' && lines.length < 64;
  if (!isSound || !entry || index === undefined || hashes.some((hash) => hash?.length !== 32)) {
    throw new ReceiptError('UNREADABLE', 'The file is not a receipt: no C2SP tlog-proof with an event in it.');
  }
  return { entry, index: Number(index), hashes: hashes as Uint8Array[], checkpoint: receipt.slice(end + 2) };
}

function readCheckpoint({ body }: SignedNote) {
  const [origin = '', size = '', encoded = ''] = body.split('\n');
  const root = fromBase64(encoded);
  if (origin === '' || !/^(0|[1-9]\d{0,15})$/.test(size) || root?.length !== 32) {
    throw new ReceiptError('UNREADABLE', 'The receipt has no checkpoint.');
  }
  return { origin, size: Number(size), root };
}

async function signers({ body, signatures }: SignedNote, keys: readonly VerifierKey[]): Promise<VerifierKey[]> {
  const found: VerifierKey[] = [];
  for (const { name, id, signature } of signatures) {
    const key = keys.find((known) => known.name === name && equal(known.id, id));
    if (!key) continue;
    await requireRight(key, signature, utf8(body));
    found.push(key);
  }
  return found;
}

async function cosigners(
  { body, signatures }: SignedNote,
  witnesses: readonly VerifierKey[],
): Promise<VerifiedReceipt['cosignedBy']> {
  const found = new Map<string, { name: string; at: Date }>();
  for (const { name, id, signature } of signatures) {
    const key = witnesses.find((known) => known.name === name && equal(known.id, id));
    if (!key) continue;
    if (signature.length !== 72) throw new ReceiptError('BAD_SIGNATURE', `The cosignature of ${name} is wrong.`);
    const seconds = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
    if (seconds === 0n) throw new ReceiptError('BAD_SIGNATURE', `The cosignature of ${name} has no time.`);
    await requireRight(key, signature.subarray(8), utf8(`cosignature/v1\ntime ${seconds}\n${body}`));
    // The same key under two names is one witness.
    found.set(hex(key.publicKey), { name, at: new Date(Number(seconds) * 1000) });
  }
  return [...found.values()];
}

async function requireRight(
  { name, publicKey }: VerifierKey,
  signature: Uint8Array,
  message: Uint8Array,
): Promise<void> {
  const { subtle } = globalThis.crypto;
  const key = await subtle.importKey('raw', concat(publicKey), 'Ed25519', false, ['verify']);
  if (await subtle.verify('Ed25519', key, concat(signature), concat(message))) return;
  throw new ReceiptError('BAD_SIGNATURE', `The signature of ${name} is wrong.`);
}
