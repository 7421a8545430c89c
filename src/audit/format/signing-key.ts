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

const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** @param seed 32 bytes */
export function signingKeyOf(seed: Buffer): SigningKey {
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  return { privateKey, publicKey: rawPublicKey(createPublicKey(privateKey)) };
}

/** @returns 32 bytes: the private key as RFC 8032 has it */
export function seedOf({ privateKey }: SigningKey): Buffer {
  return privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(PKCS8_PREFIX.length);
}

/** @returns the PEM of a new key */
export function generateSigningKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
}

export function signMessage(key: SigningKey, message: Buffer): Buffer {
  return sign(null, message, key.privateKey);
}
