import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSystemError } from '../../common/system-error.js';
import { createAtomically } from '../../common/write-atomically.js';
import { deriveLogKeys, type LogKeys } from '../format/log-keys.js';
import { generateSigningKey, parseSigningKey, type SigningKey } from '../format/signing-key.js';

export type RootKeySource = { pem: string } | { file: string };

/** Where signing keys come from: never from the database. */
export interface SigningKeySource {
  /** The key that those of each tenant are derived from; null when every tenant has one of its own. */
  root: RootKeySource | null;
  /** Folder with root keys of tenants that have their own, each called `<tenant id>.pem`. */
  folder: string | null;
}

/** The signing keys of this process. */
export class SigningKeys {
  private root: SigningKey | null;
  private readonly known = new Map<number, LogKeys>();

  constructor(private readonly source: SigningKeySource) {
    this.root = source.root && readSigningKey(source.root);
  }

  /** @throws Error when there is none for this tenant, or it can't be read */
  of(tenantId: number): LogKeys {
    const known = this.known.get(tenantId);
    if (known) return known;
    const keys = deriveLogKeys(this.rootOf(tenantId), tenantId);
    this.known.set(tenantId, keys);
    return keys;
  }

  /** Reads the files again: they may have been changed under a running service. */
  reload(tenantId: number): LogKeys {
    this.root = this.source.root && readSigningKey(this.source.root);
    this.known.clear();
    return this.of(tenantId);
  }

  /** Whether the tenant has a root key of its own. */
  isOwn(tenantId: number): boolean {
    return this.ownRootOf(tenantId) !== null;
  }

  private rootOf(tenantId: number): SigningKey {
    const root = this.ownRootOf(tenantId) ?? this.root;
    if (root) return root;
    const file = ownKeyFile(this.source.folder ?? '', tenantId);
    throw new Error(`Tenant ${tenantId} has no signing key. Put one into ${file}, or set AUDIT_SIGNING_KEY_FILE.`);
  }

  private ownRootOf(tenantId: number): SigningKey | null {
    if (this.source.folder === null) return null;
    try {
      return readSigningKey({ file: ownKeyFile(this.source.folder, tenantId) });
    } catch (error) {
      if (error instanceof Error && isSystemError(error.cause, 'ENOENT')) return null;
      throw error;
    }
  }
}

export function ownKeyFile(folder: string, tenantId: number): string {
  return join(folder, `${tenantId}.pem`);
}

/** @throws Error that names the file */
export function readSigningKey(source: RootKeySource): SigningKey {
  if ('pem' in source) return parseSigningKey(source.pem);
  try {
    return parseSigningKey(readFileSync(source.file, 'utf8'));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const advice = 'Put it back from a copy: no other key can continue what it has sealed.';
    throw new Error(`The signing key in ${source.file} can't be used: ${reason}. ${advice}`, { cause: error });
  }
}

/** Makes a key unless the file is there. @returns whether it was made @throws Error that names a file that can't be used */
export async function ensureSigningKey(file: string): Promise<boolean> {
  if (!existsSync(file)) {
    try {
      await createAtomically(file, generateSigningKey(), 0o600);
      return true;
    } catch (error) {
      // Of two processes that start at once one makes the key and the other one uses it.
      if (!isSystemError(error, 'EEXIST')) throw error;
    }
  }
  readSigningKey({ file });
  return false;
}
