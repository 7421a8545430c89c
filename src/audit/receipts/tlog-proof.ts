import { HASH_LENGTH } from '../format/event-hash.js';
import { decodeBase64 } from '../format/signed-note.js';

/** A proof file of https://c2sp.org/tlog-proof: something is in a log, and its checkpoint says so. */
export interface TlogProof {
  /** What the proof's maker adds; nobody vouches for it. */
  extra: Buffer | null;
  /** Index of the leaf. */
  index: number;
  /** Inclusion proof, from the leaf's sibling upwards. */
  hashes: Buffer[];
  /** Signed note. */
  checkpoint: string;
}

const FIRST_LINE = 'c2sp.org/tlog-proof@v1';
const MOST_HASHES = 63;

export class MalformedProof extends Error {
  override readonly name = 'MalformedProof';
}

export function tlogProofText({ extra, index, hashes, checkpoint }: TlogProof): string {
  const lines = [
    FIRST_LINE,
    ...(extra ? [`extra ${extra.toString('base64')}`] : []),
    `index ${index}`,
    ...hashes.map((hash) => hash.toString('base64')),
  ];
  return `${lines.join('\n')}\n\n${checkpoint}`;
}

/** @throws MalformedProof */
export function parseTlogProof(text: string): TlogProof {
  const end = text.indexOf('\n\n');
  if (end < 0) throw new MalformedProof('there is no empty line before the checkpoint');
  const [first, ...lines] = text.slice(0, end).split('\n');
  if (first !== FIRST_LINE) throw new MalformedProof(`the first line is not ${FIRST_LINE}`);
  const extra = lines[0]?.startsWith('extra ') ? readBase64(lines.shift()!.slice('extra '.length)) : null;
  const [, index] = /^index (0|[1-9]\d{0,15})$/.exec(lines.shift() ?? '') ?? [];
  if (index === undefined || !Number.isSafeInteger(Number(index))) throw new MalformedProof('there is no index line');
  if (lines.length > MOST_HASHES) throw new MalformedProof('the proof has more hashes than any tree is high');
  return { extra, index: Number(index), hashes: lines.map(readHash), checkpoint: text.slice(end + 2) };
}

function readBase64(text: string): Buffer {
  const bytes = decodeBase64(text);
  if (!bytes) throw new MalformedProof('the extra line is not base64');
  return bytes;
}

function readHash(line: string): Buffer {
  const hash = decodeBase64(line);
  if (hash?.length !== HASH_LENGTH) throw new MalformedProof('a line of the proof is not a hash in base64');
  return hash;
}
