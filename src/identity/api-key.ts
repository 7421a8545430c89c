import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** An API key's parts. The text is `wb_<tenant>_<prefix>_<secret>`; it names its tenant so that the look-up is by tenant. */
export interface ParsedApiKey {
  tenantId: number;
  /** Public name of the key. */
  prefix: string;
  /** SHA-256 of the whole text: the secret has 256 random bits, so no slow hash is needed. */
  hash: Buffer;
}

export interface NewApiKey extends ParsedApiKey {
  /** Shown once and stored nowhere. */
  text: string;
}

const FORM = /^wb_([1-9]\d{0,15})_([0-9a-f]{12})_([A-Za-z0-9_-]{43})$/;

export function makeApiKey(tenantId: number): NewApiKey {
  const prefix = randomBytes(6).toString('hex');
  const text = `wb_${tenantId}_${prefix}_${randomBytes(32).toString('base64url')}`;
  return { text, tenantId, prefix, hash: hashOf(text) };
}

/** The key's parts, or null when the text has not the form of one. */
export function parseApiKey(text: string): ParsedApiKey | null {
  const [, tenant, prefix] = FORM.exec(text) ?? [];
  const tenantId = Number(tenant);
  if (prefix === undefined || !Number.isSafeInteger(tenantId)) return null;
  return { tenantId, prefix, hash: hashOf(text) };
}

/** Compares in constant time. */
export function isSameHash(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
