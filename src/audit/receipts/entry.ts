import { isUtf8 } from 'node:buffer';
import { eventPreimage, HASH_LENGTH, type HashedEvent, int8be, sha256 } from '../format/event-hash.js';

/** A leaf's own bytes, before they are hashed: the event's preimage, the time of its sealing, its signature. */
export interface Entry {
  event: HashedEvent;
  /** Microseconds since 1970-01-01T00:00:00Z. */
  sealedUs: number;
  /** 64 bytes. */
  signature: Buffer;
}

const SIGNATURE_LENGTH = 64;
const LEAF_PREFIX = Buffer.from([0]);

export function entryBytes({ event, sealedUs, signature }: Entry): Buffer {
  return Buffer.concat([eventPreimage(event), int8be(sealedUs), signature]);
}

/** RFC 6962: what a tree has of any entry. */
export function entryLeaf(bytes: Buffer): Buffer {
  return sha256(LEAF_PREFIX, bytes);
}

/** @returns null for what isn't an entry; what is one makes the same bytes again */
export function parseEntry(bytes: Buffer): Entry | null {
  const [head, format = ''] = /^waybill-audit\/v(\d{1,4})\n/.exec(bytes.toString('latin1', 0, 24)) ?? [];
  if (head === undefined) return null;
  const cursor = new Cursor(bytes, head.length);
  try {
    const tenantId = cursor.integer();
    const eventId = cursor.uuid();
    const stream = cursor.text();
    const version = cursor.integer();
    const occurredUs = cursor.integer();
    const type = cursor.text();
    const actor = cursor.uuid();
    const body = cursor.text();
    const prevHash = cursor.take(HASH_LENGTH);
    const event = {
      tenantId,
      eventId,
      stream,
      version,
      occurredUs,
      type,
      actor,
      body,
      prevHash,
      format: Number(format),
    };
    const entry = { event, sealedUs: cursor.integer(), signature: cursor.take(SIGNATURE_LENGTH) };
    return entryBytes(entry).equals(bytes) ? entry : null;
  } catch (error) {
    if (error instanceof NoEntry) return null;
    throw error;
  }
}

class NoEntry extends Error {}

class Cursor {
  constructor(
    private readonly bytes: Buffer,
    private at: number,
  ) {}

  take(length: number): Buffer {
    const end = this.at + length;
    if (length < 0 || end > this.bytes.length) throw new NoEntry('it ends too early');
    const part = this.bytes.subarray(this.at, end);
    this.at = end;
    return part;
  }

  integer(): number {
    const value = Number(this.take(8).readBigInt64BE());
    if (!Number.isSafeInteger(value)) throw new NoEntry('a number is beyond 2^53');
    return value;
  }

  text(): string {
    const length = this.take(4).readInt32BE();
    const bytes = this.take(length);
    if (!isUtf8(bytes)) throw new NoEntry('a text is not UTF-8');
    return bytes.toString('utf8');
  }

  uuid(): string {
    const hex = this.take(16).toString('hex');
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }
}
