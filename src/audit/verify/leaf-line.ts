import { isUtf8 } from 'node:buffer';
import { LINE_MEMBERS } from './export-format.js';
import { LineReader, NotAsWritten } from './line-reader.js';

/** An event's line of an export. */
export interface LeafLine {
  index: number;
  stream: string;
  version: number;
  type: string;
  /** Microseconds since 1970-01-01T00:00:00Z. */
  occurredUs: number;
  format: number;
  /** Microseconds since 1970-01-01T00:00:00Z. */
  sealedUs: number;
  /** 64 bytes. */
  signature: Buffer;
  prevHash: Buffer;
  /** As the line says. */
  eventHash: Buffer;
  /** The bytes that the hash is over. They are overwritten when the next line is read. */
  preimage: Buffer;
  /** The body's text, while the preimage is there. */
  body: () => string;
}

const BEFORE = Object.fromEntries(
  LINE_MEMBERS.map((name, at) => [name, Buffer.from(`${at === 0 ? '{' : ','}"${name}":`)]),
) as Record<(typeof LINE_MEMBERS)[number], Buffer>;
const END = Buffer.from('}');
const HEAD = Buffer.from('waybill-audit/v1\n');
/** The preimage has less besides its texts than the line. */
const ROOM = 256;
const [HASH, SIGNATURE, UUID, INT8, LENGTH] = [32, 64, 16, 8, 4];

/**
 * Reads the lines of one export, and lays out the preimages of their events as it goes. There is one way to write an event, so
 * a member that is missing, doubled, unknown or in another place is found as what it is: other bytes than expected.
 */
export class LeafLines {
  private readonly reader = new LineReader();
  private scratch = Buffer.alloc(64 * 1024);

  constructor(tenantId: number) {
    HEAD.copy(this.scratch);
    writeInt64(this.scratch, tenantId, HEAD.length);
  }

  /** @throws NotAsWritten */
  read(line: Buffer): LeafLine {
    if (!isUtf8(line)) throw new NotAsWritten();
    this.makeRoom(line.length + ROOM);
    const { reader, scratch } = this;
    reader.begin(line);
    reader.literal(BEFORE.index);
    const index = reader.integer();
    reader.literal(BEFORE.stream);
    const eventIdAt = HEAD.length + INT8;
    const streamAt = eventIdAt + UUID + LENGTH;
    const streamEnd = this.text(streamAt);
    reader.literal(BEFORE.version);
    const version = this.positive();
    writeInt64(scratch, version, streamEnd);
    reader.literal(BEFORE.eventId);
    reader.uuid(scratch, eventIdAt);
    reader.literal(BEFORE.type);
    const typeAt = streamEnd + 2 * INT8 + LENGTH;
    const typeEnd = this.text(typeAt);
    reader.literal(BEFORE.actor);
    reader.uuid(scratch, typeEnd);
    reader.literal(BEFORE.occurredUs);
    const occurredUs = reader.integer();
    writeInt64(scratch, occurredUs, streamEnd + INT8);
    reader.literal(BEFORE.body);
    const bodyAt = typeEnd + UUID + LENGTH;
    const bodyEnd = this.text(bodyAt);
    reader.literal(BEFORE.prevHash);
    reader.hex(scratch, bodyEnd, HASH);
    const hashes = Buffer.allocUnsafe(2 * HASH + SIGNATURE);
    scratch.copy(hashes, 0, bodyEnd, bodyEnd + HASH);
    reader.literal(BEFORE.eventHash);
    reader.hex(hashes, HASH, HASH);
    reader.literal(BEFORE.format);
    const format = reader.integer();
    reader.literal(BEFORE.sealedUs);
    const sealedUs = reader.integer();
    reader.literal(BEFORE.signature);
    reader.signature(hashes, 2 * HASH);
    reader.literal(END);
    reader.end();
    return {
      index,
      stream: scratch.toString('utf8', streamAt, streamEnd),
      version,
      type: scratch.toString('utf8', typeAt, typeEnd),
      occurredUs,
      format,
      sealedUs,
      prevHash: hashes.subarray(0, HASH),
      eventHash: hashes.subarray(HASH, 2 * HASH),
      signature: hashes.subarray(2 * HASH),
      preimage: scratch.subarray(0, bodyEnd + HASH),
      body: () => scratch.toString('utf8', bodyAt, bodyEnd),
    };
  }

  /** A text with its length before it. @returns where it ends */
  private text(at: number): number {
    const end = this.reader.string(this.scratch, at);
    this.scratch.writeInt32BE(end - at, at - LENGTH);
    return end;
  }

  private positive(): number {
    const value = this.reader.integer();
    if (value === 0) throw new NotAsWritten();
    return value;
  }

  private makeRoom(bytes: number): void {
    if (bytes <= this.scratch.length) return;
    const larger = Buffer.alloc(2 * bytes);
    this.scratch.copy(larger, 0, 0, HEAD.length + INT8);
    this.scratch = larger;
  }
}

/** BigInt costs more than everything else that is written. */
function writeInt64(target: Buffer, value: number, at: number): void {
  target.writeUInt32BE(Math.floor(value / 2 ** 32), at);
  target.writeUInt32BE(value % 2 ** 32, at + 4);
}
