import { join } from 'node:path';
import { ensureSigningKey, type SigningKeySource } from './audit/tools.js';
import type { Config } from './config.js';

/** Where the embedded default keeps the key that it makes. */
export function embeddedKeyFile(dataDir: string): string {
  return join(dataDir, 'audit-signing-key.pem');
}

/**
 * The signing key that the settings name. Where none is named, an embedded server gets one of its own, and any other
 * database has none: a key that appears by itself in production would be nobody's.
 */
export async function resolveSigningKey(config: Config, log: (line: string) => void): Promise<SigningKeySource | null> {
  if (config.audit.signingKey || config.database) return config.audit.signingKey;
  const file = embeddedKeyFile(config.dataDir);
  if (await ensureSigningKey(file)) {
    log(`Made a signing key for the audit log: ${file}. Keep a copy; whoever holds it can seal in your name.`);
  }
  return { root: { file }, folder: null };
}
