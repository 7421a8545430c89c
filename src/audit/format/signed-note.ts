import { createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';
import { isSoundPublicKey } from './public-key.js';

/**
 * Signed notes of C2SP (https://c2sp.org/signed-note@v1.0.0) with Ed25519, the one algorithm in use here. A verifier
 * key's text is `<name>+<key id in hex>+<base64 of 0x01 and the public key>`.
 */
export interface NoteVerifier {
  name: string;
  keyId: Buffer;
  publicKey: KeyObject;
  /** 32 bytes. */
  rawPublicKey: Buffer;
}

export interface NoteSigner {
  name: string;
  privateKey: KeyObject;
  rawPublicKey: Buffer;
}

export class NoteError extends Error {
  override readonly name = 'NoteError';
}

const ED25519 = 0x01;
const MAX_SIGNATURES = 100;
/** Bytes of the longest note. */
const MAX_NOTE = 1_000_000;
// Unicode white space, and the plus that parts a key's text.
const BAD_NAME = /[\p{White_Space}+]/u;
// ASCII control characters but the newline; a lone surrogate cannot be UTF-8.
// eslint-disable-next-line no-control-regex
const BAD_TEXT = /[\u0000-\u0009\u000b-\u001f]|\p{Cs}/u;
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

export function publicKeyOf(raw: Buffer): KeyObject {
  return createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: 'der', type: 'spki' });
}

/** @param raw 32 bytes */
export function verifySignature(raw: Buffer, message: Buffer, signature: Buffer): boolean {
  return verify(null, message, publicKeyOf(raw), signature);
}

export function rawPublicKey(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length);
}

/** @param type the signature type's byte of the specification */
export function keyId(name: string, raw: Buffer, type = ED25519): Buffer {
  const bytes = Buffer.concat([Buffer.from(`${name}\n`), Buffer.from([type]), raw]);
  return hash('sha256', bytes, 'buffer').subarray(0, 4);
}

/** Whether an origin, or a key, may be called so. */
export function isNoteName(name: string): boolean {
  return name !== '' && !BAD_NAME.test(name) && !BAD_TEXT.test(name);
}

export function verifierOf(name: string, raw: Buffer, type = ED25519): NoteVerifier {
  if (!isNoteName(name)) throw new NoteError(`"${name}" can't be the name of a key`);
  return { name, keyId: keyId(name, raw, type), publicKey: publicKeyOf(raw), rawPublicKey: raw };
}

export function verifierKeyText(name: string, raw: Buffer, type = ED25519): string {
  const key = Buffer.concat([Buffer.from([type]), raw]).toString('base64');
  return `${name}+${keyId(name, raw, type).toString('hex')}+${key}`;
}

/** @throws NoteError for a text that isn't an Ed25519 verifier key */
export function parseVerifierKey(text: string): NoteVerifier {
  return parseTypedKey(text, ED25519);
}

/**
 * @param type the signature type's byte of the specification
 * @throws NoteError for a text that isn't an Ed25519 verifier key of this type
 */
export function parseTypedKey(text: string, type: number): NoteVerifier {
  const [, name = '', id = '', encoded = ''] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/su.exec(text) ?? [];
  const key = decodeBase64(encoded);
  if (!key || key.length !== 33 || key[0] !== type) throw new NoteError('not an Ed25519 verifier key');
  if (!isSoundPublicKey(key.subarray(1))) throw new NoteError('a weak Ed25519 key, under which anybody signs');
  const verifier = verifierOf(name, key.subarray(1), type);
  if (verifier.keyId.toString('hex') !== id) throw new NoteError("the verifier key's id doesn't belong to its key");
  return verifier;
}

/** @param text ends with a newline */
export function signNote(text: string, signers: readonly NoteSigner[]): string {
  if (!text.endsWith('\n') || BAD_TEXT.test(text)) throw new NoteError("the text can't be that of a note");
  const lines = signers.map(({ name, privateKey, rawPublicKey: raw }) => {
    const signature = Buffer.concat([keyId(name, raw), sign(null, Buffer.from(text), privateKey)]);
    return signatureLine(name, signature);
  });
  return `${text}\n${lines.join('')}`;
}

/** @param signature the key's id, followed by what it signed */
export function signatureLine(name: string, signature: Buffer): string {
  return `— ${name} ${signature.toString('base64')}\n`;
}

export interface OpenedNote {
  text: string;
  /** The known keys that signed it; at least one. */
  signedBy: NoteVerifier[];
}

/**
 * The text of a note that a known key signed. Signatures of unknown keys are passed over, as the specification asks.
 *
 * @throws NoteError when the note is malformed, when a known key's signature is wrong, and when no known key signed it;
 *   `isUnknown` tells the last one apart
 */
export function openNote(note: string, verifiers: readonly NoteVerifier[]): OpenedNote {
  const { text, signatures } = parseNote(note);
  const signedBy: NoteVerifier[] = [];
  for (const { name, id, signature } of signatures) {
    const known = verifiers.find((verifier) => verifier.name === name && verifier.keyId.equals(id));
    if (!known) continue;
    if (!verify(null, Buffer.from(text), known.publicKey, signature))
      throw new NoteError(`${name}'s signature of the note is wrong`);
    signedBy.push(known);
  }
  if (signedBy.length === 0) throw new UnknownSignerError('no known key signed the note');
  return { text, signedBy };
}

/** Nothing is wrong with the note, but nobody known vouches for it. */
export class UnknownSignerError extends NoteError {}

export interface NoteSignature {
  name: string;
  id: Buffer;
  signature: Buffer;
}

/** @throws NoteError */
export function parseNote(note: string): { text: string; signatures: NoteSignature[] } {
  const split = note.lastIndexOf('\n\n');
  if (Buffer.byteLength(note) > MAX_NOTE) throw new NoteError(`the note is longer than ${MAX_NOTE} bytes`);
  if (BAD_TEXT.test(note) || split < 0 || !note.endsWith('\n')) throw new NoteError('malformed note');
  const lines = note.slice(split + 2, -1).split('\n');
  if (lines.length > MAX_SIGNATURES) throw new NoteError('the note has too many signatures');
  return { text: note.slice(0, split + 1), signatures: lines.map(parseSignature) };
}

function parseSignature(line: string): NoteSignature {
  const [, name = '', encoded = ''] = /^— ([^ ]+) ([^ ]+)$/u.exec(line) ?? [];
  const bytes = decodeBase64(encoded);
  if (!bytes || bytes.length < 5 || !isNoteName(name)) throw new NoteError('malformed signature line in the note');
  return { name, id: bytes.subarray(0, 4), signature: bytes.subarray(4) };
}

/** Strict, since Node skips what isn't base64. */
export function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return text !== '' && bytes.toString('base64') === text ? bytes : undefined;
}
