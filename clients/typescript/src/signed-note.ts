import { concat, equal, fromBase64, sha256, utf8 } from './receipt-bytes.js';

/** A C2SP signed note. */
export interface SignedNote {
  /** What is signed, with its last newline. */
  body: string;
  signatures: { name: string; id: Uint8Array; signature: Uint8Array }[];
}

export interface VerifierKey {
  name: string;
  id: Uint8Array;
  /** Ed25519, 32 bytes. */
  publicKey: Uint8Array;
}

/** @returns null for what isn't one */
export function parseNote(note: string): SignedNote | null {
  const end = note.lastIndexOf('\n\n');
  // eslint-disable-next-line no-control-regex
  if (end < 0 || !note.endsWith('\n') || /[\u0000-\u0009\u000b-\u001f]/.test(note)) return null;
  const signatures: SignedNote['signatures'] = [];
  for (const line of note.slice(end + 2, -1).split('\n')) {
    const [, name = '', encoded = ''] = /^— (\S+) (\S+)$/u.exec(line) ?? [];
    const bytes = fromBase64(encoded);
    if (!bytes || bytes.length < 5) return null;
    signatures.push({ name, id: bytes.subarray(0, 4), signature: bytes.slice(4) });
  }
  return { body: note.slice(0, end + 1), signatures };
}

/**
 * @param type the signature type's byte: 1 for a log's key, 4 for a witness's
 * @throws Error for a text that isn't such a key
 */
export async function parseVerifierKey(text: string, type: number): Promise<VerifierKey> {
  const [, name = '', id = '', encoded = ''] = /^([^+\s]+)\+([0-9a-f]{8})\+(.+)$/u.exec(text) ?? [];
  const key = fromBase64(encoded);
  if (key?.length === 33 && key[0] === type) {
    const computed = (await sha256(utf8(`${name}\n`), key)).slice(0, 4);
    if (
      equal(
        computed,
        Uint8Array.from(id.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16)),
      )
    ) {
      return { name, id: computed, publicKey: concat(key.subarray(1)) };
    }
  }
  throw new Error(`"${text}" is not the Ed25519 verifier key of a ${type === 1 ? 'log' : 'witness'}.`);
}
