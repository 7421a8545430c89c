import { type KeyObject, sign, verify } from 'node:crypto';
import {
  keyId,
  NoteError,
  type NoteVerifier,
  parseNote,
  parseTypedKey,
  signatureLine,
  verifierKeyText,
} from '../format/signed-note.js';

/*
 * Cosignatures of C2SP (https://c2sp.org/tlog-cosignature), version 1 with Ed25519: a witness's statement that at that
 * time this was the largest checkpoint of the log that it has seen, and that all it saw before is contained in it.
 */
const TIMESTAMPED_ED25519 = 0x04;
const TIME_BYTES = 8;
const SIGNATURE_BYTES = TIME_BYTES + 64;
const LATEST_TIME = 2n ** 63n - 1n;

/** The key of a witness, by which its cosignatures are known. */
export type WitnessKey = NoteVerifier;

export interface WitnessSigner {
  name: string;
  privateKey: KeyObject;
  /** 32 bytes. */
  rawPublicKey: Buffer;
}

export interface Cosignature {
  witness: WitnessKey;
  /** Seconds since 1970-01-01T00:00:00Z. */
  timestamp: number;
  /** Its line of the note, with the newline. */
  line: string;
}

/** @throws NoteError for what isn't the verifier key of an Ed25519 witness */
export function parseWitnessKey(text: string): WitnessKey {
  try {
    return parseTypedKey(text, TIMESTAMPED_ED25519);
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new NoteError(
      `"${text}" is not the verifier key of a witness: <name>+<key id>+<base64 of 0x04 and an Ed25519 key>`,
    );
  }
}

export function witnessKeyText(name: string, rawPublicKey: Buffer): string {
  return verifierKeyText(name, rawPublicKey, TIMESTAMPED_ED25519);
}

/**
 * Names and keys of a policy: a witness that is there twice, under another name or not, would count twice.
 *
 * @throws NoteError
 */
export function requireDistinct(witnesses: readonly WitnessKey[]): void {
  const keys = witnesses.map(({ rawPublicKey }) => rawPublicKey.toString('hex'));
  const names = witnesses.map(({ name }) => name);
  if (new Set(keys).size < keys.length) throw new NoteError('two witnesses have the same key');
  if (new Set(names).size < names.length) throw new NoteError('two witnesses have the same name');
}

/** The message that a cosignature is over: all of the note's text, with a header that no note begins with. */
function cosignedMessage(text: string, timestamp: bigint): Buffer {
  return Buffer.from(`cosignature/v1\ntime ${timestamp}\n${text}`);
}

/**
 * @param text of a checkpoint, without its signatures
 * @param timestamp in seconds since 1970-01-01T00:00:00Z
 * @returns the line to add to the note
 */
export function cosign(text: string, signer: WitnessSigner, timestamp: number): string {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeBigUInt64BE(BigInt(timestamp));
  const signature = sign(null, cosignedMessage(text, BigInt(timestamp)), signer.privateKey);
  const id = keyId(signer.name, signer.rawPublicKey, TIMESTAMPED_ED25519);
  return signatureLine(signer.name, Buffer.concat([id, time, signature]));
}

/**
 * The cosignatures of known witnesses on a note; one a witness. Lines of others are passed over.
 *
 * @throws NoteError when the note is malformed, and when a known witness's cosignature is wrong
 */
export function cosignaturesOn(note: string, witnesses: readonly WitnessKey[]): Cosignature[] {
  const { text, signatures } = parseNote(note);
  const found = new Map<WitnessKey, Cosignature>();
  for (const { name, id, signature } of signatures) {
    const witness = witnesses.find((known) => known.name === name && known.keyId.equals(id));
    if (!witness) continue;
    const timestamp = timeOf(signature);
    const isRight =
      timestamp !== null &&
      verify(null, cosignedMessage(text, timestamp), witness.publicKey, signature.subarray(TIME_BYTES));
    if (!isRight) throw new NoteError(`${name}'s cosignature of the checkpoint is wrong`);
    const line = signatureLine(name, Buffer.concat([id, signature]));
    if (!found.has(witness)) found.set(witness, { witness, timestamp: Number(timestamp), line });
  }
  return [...found.values()];
}

/** @returns null for what isn't a timestamped signature; zero is the time of none */
function timeOf(signature: Buffer): bigint | null {
  if (signature.length !== SIGNATURE_BYTES) return null;
  const timestamp = signature.readBigUInt64BE(0);
  return timestamp > 0n && timestamp <= LATEST_TIME ? timestamp : null;
}
