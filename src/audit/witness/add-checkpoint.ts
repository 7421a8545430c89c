import { HASH_LENGTH } from '../format/event-hash.js';
import { decodeBase64 } from '../format/signed-note.js';

/** What a log asks a witness with: `add-checkpoint` of https://c2sp.org/tlog-witness. */
export interface AddCheckpointRequest {
  /** Size of the checkpoint that the witness cosigned last; 0 for none. */
  oldSize: number;
  /** Consistency proof from that size to the checkpoint's. */
  proof: Buffer[];
  /** The checkpoint, a signed note. */
  note: string;
}

export const SIZE_TYPE = 'text/x.tlog.size';
const MOST_PROOF_LINES = 63;

export class MalformedRequest extends Error {
  override readonly name = 'MalformedRequest';
}

export function addCheckpointBody({ oldSize, proof, note }: AddCheckpointRequest): string {
  return `old ${oldSize}\n${proof.map((hash) => `${hash.toString('base64')}\n`).join('')}\n${note}`;
}

/** @throws MalformedRequest */
export function parseAddCheckpoint(body: string): AddCheckpointRequest {
  const end = body.indexOf('\n\n');
  const [first = '', ...hashes] = body.slice(0, Math.max(end, 0)).split('\n');
  const oldSize = parseSize(/^old (.+)$/.exec(first)?.[1] ?? '');
  if (end < 0 || oldSize === null) {
    throw new MalformedRequest(
      'the request must begin with a line "old <size>" and have an empty line before the note',
    );
  }
  if (hashes.length > MOST_PROOF_LINES) throw new MalformedRequest('a consistency proof has at most 63 hashes');
  return { oldSize, proof: hashes.map(parseHash), note: body.slice(end + 2) };
}

/** A size in decimal as the specifications write it; null for anything else, and from 2^53 on. */
export function parseSize(text: string): number | null {
  const size = /^(0|[1-9]\d{0,15})$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(size) ? size : null;
}

function parseHash(line: string): Buffer {
  const hash = decodeBase64(line);
  if (hash?.length !== HASH_LENGTH) throw new MalformedRequest('a line of the proof is not a hash in base64');
  return hash;
}
