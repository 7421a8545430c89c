import { readFileSync } from 'node:fs';
import { mkdir, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isSystemError } from '../../common/system-error.js';
import { generateSigningKey, parseSigningKey, type SigningKey } from '../format/signing-key.js';

/** Where the signing key comes from: never from the database. */
export type SigningKeySource = { pem: string } | { file: string };

/** The signing key of this process. */
export class SigningKeys {
  private key: SigningKey;

  constructor(private readonly source: SigningKeySource) {
    this.key = readSigningKey(source);
  }

  get current(): SigningKey {
    return this.key;
  }

  /** Reads the file again: it may have been rotated under a running service. */
  reload(): SigningKey {
    this.key = readSigningKey(this.source);
    return this.key;
  }
}

/** @throws Error that names the file */
export function readSigningKey(source: SigningKeySource): SigningKey {
  if ('pem' in source) return parseSigningKey(source.pem);
  try {
    return parseSigningKey(readFileSync(source.file, 'utf8'));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`The signing key in ${source.file} can't be used: ${reason}`, { cause: error });
  }
}

/** Makes a key unless the file is there. @returns whether it was made */
export async function ensureSigningKey(file: string): Promise<boolean> {
  await mkdir(dirname(file), { recursive: true });
  try {
    // Exclusive: of two processes that start at once one makes the key and the other one uses it.
    const handle = await open(file, 'wx', 0o600);
    try {
      await handle.writeFile(generateSigningKey());
      await handle.sync();
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if (!isSystemError(error, 'EEXIST')) throw error;
    parseSigningKey(await readFile(file, 'utf8'));
    return false;
  }
}
