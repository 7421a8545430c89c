import { hash } from 'node:crypto';

/**
 * The bytes behind every hash of the audit trail, as docs/audit-format.md lays them down. `audit.event_hash` of the
 * database makes the same ones.
 */
export interface HashedEvent {
  tenantId: number;
  eventId: string;
  stream: string;
  version: number;
  /** Microseconds since 1970-01-01T00:00:00Z. */
  occurredUs: number;
  type: string;
  actor: string;
  /** JSON text, hashed as it is. */
  body: string;
  /** 32 bytes. */
  prevHash: Buffer;
  format: number;
}

export const HASH_LENGTH = 32;

export function sha256(...parts: readonly Uint8Array[]): Buffer {
  return hash('sha256', parts.length === 1 ? (parts[0] ?? new Uint8Array()) : Buffer.concat(parts), 'buffer');
}

/** The bytes that an event's hash is over. Written in place: a verifier makes millions of them. */
export function eventPreimage(event: HashedEvent): Buffer {
  const head = `waybill-audit/v${event.format}\n`;
  const texts = [event.stream, event.type, event.body].map((text) => Buffer.byteLength(text));
  const [stream = 0, type = 0, body = 0] = texts;
  const bytes = Buffer.allocUnsafe(head.length + stream + type + body + FIXED_BYTES);
  let at = bytes.write(head, 'latin1');
  at = bytes.writeBigInt64BE(BigInt(event.tenantId), at);
  at += writeUuid(bytes, event.eventId, at);
  at = writeText(bytes, event.stream, stream, at);
  at = bytes.writeBigInt64BE(BigInt(event.version), at);
  at = bytes.writeBigInt64BE(BigInt(event.occurredUs), at);
  at = writeText(bytes, event.type, type, at);
  at += writeUuid(bytes, event.actor, at);
  at = writeText(bytes, event.body, body, at);
  event.prevHash.copy(bytes, at);
  return bytes;
}

/** Three integers, two UUIDs, three lengths, one hash. */
const FIXED_BYTES = 3 * 8 + 2 * 16 + 3 * 4 + HASH_LENGTH;

function writeText(bytes: Buffer, text: string, length: number, at: number): number {
  const begin = bytes.writeInt32BE(length, at);
  return begin + bytes.write(text, begin, length);
}

function writeUuid(bytes: Buffer, uuid: string, at: number): number {
  const written = bytes.write(uuid.replaceAll('-', ''), at, 16, 'hex');
  if (written !== 16 || uuid.length !== 36) throw new Error(`not a UUID: ${uuid}`);
  return written;
}

export function eventHash(event: HashedEvent): Buffer {
  return sha256(eventPreimage(event));
}

/** What stands in the place of the hash before, in the first event of a stream. */
export function genesisHash(tenantId: number, stream: string): Buffer {
  return sha256(Buffer.from('waybill-audit/genesis/v1\n'), int8be(tenantId), lengthPrefixed(stream));
}

const SIGNATURE_CONTEXT = Buffer.from('waybill-audit/sig/v1\n');

/**
 * The message that an event's Ed25519 signature is over.
 *
 * @param sealedUs when it is signed, in microseconds since 1970-01-01T00:00:00Z
 */
export function signatureMessage(eventHash: Buffer, sealedUs: number): Buffer {
  return Buffer.concat([SIGNATURE_CONTEXT, eventHash, int8be(sealedUs)]);
}

const LEAF_PREFIX = Buffer.from([0]);

/** RFC 6962 leaf hash of an event with the time of its sealing and its signature. */
export function leafHash(preimage: Buffer, sealedUs: number, signature: Buffer): Buffer {
  return sha256(LEAF_PREFIX, preimage, int8be(sealedUs), signature);
}

const ROTATION_CONTEXT = Buffer.from('waybill-audit/rotation/v1\n');

/** Public keys of a log, 32 bytes each. */
export interface LogPublicKeys {
  checkpointKey: Buffer;
  eventKey: Buffer;
}

export interface KeyRotation {
  origin: string;
  /** Leaves before the event of the rotation, which is the last leaf that the old event key signs. */
  size: number;
  /** Root of those leaves: both checkpoint keys vouch for them. */
  root: Buffer;
  old: LogPublicKeys;
  next: LogPublicKeys;
}

/** The message that the old and the new checkpoint key sign when keys change. */
export function rotationMessage({ origin, size, root, old, next }: KeyRotation): Buffer {
  const keys = [old.checkpointKey, old.eventKey, next.checkpointKey, next.eventKey];
  return Buffer.concat([ROTATION_CONTEXT, lengthPrefixed(origin), int8be(size), root, ...keys]);
}

export function lengthPrefixed(text: string): Buffer {
  const bytes = Buffer.byteLength(text);
  const buffer = Buffer.allocUnsafe(4 + bytes);
  buffer.writeInt32BE(bytes, 0);
  buffer.write(text, 4);
  return buffer;
}

export function int8be(value: number): Buffer {
  const buffer = Buffer.allocUnsafe(8);
  buffer.writeBigInt64BE(BigInt(value));
  return buffer;
}
