import { generateKeyPairSync } from 'node:crypto';

/** Settings of a service that seals: a key of its own, and nowhere to publish but its folder. */
export function sealingSettings(folder: string): Record<string, string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  return {
    AUDIT_SIGNING_KEY: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    AUDIT_ORIGIN: 'audit.bench',
    AUDIT_SEAL_INTERVAL: '1s',
    AUDIT_CHECKPOINT_DIR: folder,
  };
}
