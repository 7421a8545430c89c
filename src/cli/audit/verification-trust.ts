import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { parseTrustedKey, readUnverified, type TrustedKey, UnreadableExport } from '../../audit/tools.js';
import { readTrustedWitnesses } from './options.js';

export interface VerificationTrust {
  trusted: TrustedKey[];
  /** Signed notes. */
  checkpoints: string[];
  cosigned: ReturnType<typeof readTrustedWitnesses>;
}

/** @throws UnreadableExport that names what can't be read */
export async function readTrust(
  options: { vkey: string[]; checkpoint: string[] } & Parameters<typeof readTrustedWitnesses>[0],
): Promise<VerificationTrust> {
  const trusted = options.vkey.map((text) => readable(`--vkey ${text}`, () => parseTrustedKey(text)));
  const checkpoints = [];
  for (const file of options.checkpoint) checkpoints.push(readCheckpoint(file, await readFile(file)));
  return { trusted, checkpoints, cosigned: readTrustedWitnesses(options) };
}

function readCheckpoint(file: string, bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new UnreadableExport('MALFORMED', `--checkpoint ${file}: it is not UTF-8`);
  const note = bytes.toString();
  readable(`--checkpoint ${file}`, () => readUnverified(note));
  return note;
}

function readable<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UnreadableExport('MALFORMED', `${what}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
