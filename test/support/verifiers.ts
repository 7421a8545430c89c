import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { NoteError } from '../../src/audit/format/signed-note.js';
import { UnreadableExport } from '../../src/audit/verify/export-format.js';
import { parseTrustedKey } from '../../src/audit/verify/trusted-key.js';
import { verifyExport } from '../../src/audit/verify/verify-export.js';

/** One case of docs/audit-vectors.json, or of its form. */
export interface VerifierCase {
  name: string;
  /** A line of the base by its number, a text, or bytes that are none. */
  lines: (number | string | { base64: string })[];
  /** What each line ends in; a newline without it. */
  end?: string;
  vkeys: string[];
  checkpoints?: string[];
}

/** What a verifier said; what it doesn't know is left out. */
export interface Said {
  verdict: string;
  code: string | null;
  /** Leaf. */
  index?: number | null;
  /** Of the file, from 1. */
  line?: number | null;
  late?: number;
  breaks?: number[];
  root?: string;
}

const SECOND_VERIFIER = join(import.meta.dirname, '../verifier/check_vectors.py');

export function bytesOf({ lines, end = '\n' }: VerifierCase, base: readonly string[]): Buffer {
  const parts = lines.map((line) => {
    if (typeof line === 'number') return Buffer.from(base[line] ?? '');
    return typeof line === 'string' ? Buffer.from(line) : Buffer.from(line.base64, 'base64');
  });
  const ends = parts.map((_, at) => Buffer.from(at === parts.length - 1 ? end : '\n'));
  return Buffer.concat(parts.flatMap((part, at) => [part, ends[at] ?? Buffer.alloc(0)]));
}

/** What the service's own verifier says of a case. */
export async function askFirst(one: VerifierCase, base: readonly string[] = []): Promise<Said> {
  try {
    const bytes = bytesOf(one, base);
    // In pieces, as a file comes.
    const pieces = [bytes.subarray(0, 1000), bytes.subarray(1000, 1001), bytes.subarray(1001)];
    const { verdict, fault, root, late, breaks } = await verifyExport(Readable.from(pieces), {
      trusted: one.vkeys.map(parseTrustedKey),
      checkpoints: one.checkpoints,
    });
    return {
      verdict,
      code: fault?.code ?? null,
      index: fault?.index ?? null,
      late: late?.count ?? 0,
      breaks: breaks.map(({ index }) => index),
      root,
    };
  } catch (error) {
    if (error instanceof UnreadableExport) return { verdict: 'unreadable', code: error.code, line: error.line ?? null };
    if (error instanceof NoteError) return { verdict: 'unreadable', code: 'MALFORMED', line: null };
    throw error;
  }
}

/**
 * What the verifier in Python says of each case, in one process.
 *
 * @param isPure without Python's `cryptography`
 */
export async function askSecond(
  cases: readonly VerifierCase[],
  { base = [], isPure = false }: { base?: readonly string[]; isPure?: boolean } = {},
): Promise<Said[]> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-verifiers-'));
  try {
    const file = join(folder, 'cases.json');
    await writeFile(file, JSON.stringify({ base, cases }));
    const { stdout } = await promisify(execFile)('python3', [SECOND_VERIFIER, file, ...(isPure ? ['--pure'] : [])], {
      maxBuffer: 64 * 1024 * 1024,
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    });
    return JSON.parse(stdout) as Said[];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
