/* Bytes and hashes for receipts, with nothing but what browsers and Node both have. */

/** The bytes one after the other, in a buffer of their own. */
export function concat(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

export function equal(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return concat(new TextEncoder().encode(text));
}

/** Strict: padding and unused bits as they must be. @returns null for anything else */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || text.length % 4 !== 0) return null;
  const binary = atob(text);
  return btoa(binary) === text ? Uint8Array.from(binary, (char) => char.codePointAt(0) ?? 0) : null;
}

export async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await globalThis.crypto.subtle.digest('SHA-256', concat(...parts)));
}

const LEAF = new Uint8Array([0]);
const NODE = new Uint8Array([1]);

/** RFC 6962, section 2.1. */
export function leafHash(entry: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return sha256(LEAF, entry);
}

/**
 * The root that a leaf and its inclusion proof lead to, by RFC 9162, section 2.1.3.2.
 *
 * @returns null when the proof is not one of that leaf in a tree of that size
 */
export async function rootOf(
  leaf: Uint8Array,
  index: number,
  size: number,
  proof: readonly Uint8Array[],
): Promise<Uint8Array | null> {
  if (index >= size) return null;
  let [node, last] = [index, size - 1];
  let hash = leaf;
  for (const sibling of proof) {
    if (last === 0) return null;
    if (node % 2 === 1 || node === last) {
      hash = await sha256(NODE, sibling, hash);
      while (node % 2 === 0 && node !== 0) [node, last] = [node / 2, Math.floor(last / 2)];
    } else {
      hash = await sha256(NODE, hash, sibling);
    }
    [node, last] = [Math.floor(node / 2), Math.floor(last / 2)];
  }
  return last === 0 ? hash : null;
}
