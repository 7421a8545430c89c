import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { rawPublicKey } from './signed-note.js';

/** An Ed25519 key that seals. It never is in the database. */
export interface SigningKey {
  privateKey: KeyObject;
  /** 32 bytes. */
  publicKey: Buffer;
}

/** @throws Error when the text isn't the PEM of an unencrypted PKCS #8 Ed25519 key */
export function parseSigningKey(pem: string): SigningKey {
  const privateKey = createPrivateKey(pem);
  if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error('the signing key is not an Ed25519 key');
  return { privateKey, publicKey: rawPublicKey(createPublicKey(privateKey)) };
}

/** @returns the PEM of a new key */
export function generateSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
}

export function signMessage(key: SigningKey, message: Buffer): Buffer {
  return sign(null, message, key.privateKey);
}
