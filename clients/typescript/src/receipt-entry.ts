import { hex, sha256 } from './receipt-bytes.js';

/** The event that a receipt is for, as docs/audit-format.md says. */
export interface ReceiptEvent {
  tenantId: number;
  /** Kind and id, as in `order/…`. */
  stream: string;
  version: number;
  eventId: string;
  type: string;
  /** The user who acted. */
  actor: string;
  /** RFC 3339 with microseconds. */
  occurredAt: string;
  /** JSON text, as it was hashed. */
  body: string;
  /** Hex. */
  prevHash: string;
  /** Hex; the answer to the write had it. */
  eventHash: string;
  /** When it was sealed into the log. */
  sealedAt: string;
}

const SIGNATURE_BYTES = 64;

/** @returns null for bytes that are no event with its time of sealing and its signature */
export async function parseReceiptEntry(bytes: Uint8Array): Promise<ReceiptEvent | null> {
  const head = /^waybill-audit\/v1\n/.exec(String.fromCodePoint(...bytes.subarray(0, 17)));
  if (!head) return null;
  try {
    const reader = new Reader(bytes, head[0].length);
    const fields = {
      tenantId: reader.integer(),
      eventId: reader.uuid(),
      stream: reader.text(),
      version: reader.integer(),
      occurredAt: timeOf(reader.integer()),
      type: reader.text(),
      actor: reader.uuid(),
      body: reader.text(),
      prevHash: hex(reader.take(32)),
    };
    const eventHash = hex(await sha256(bytes.subarray(0, reader.position)));
    const sealedAt = timeOf(reader.integer());
    return bytes.length - reader.position === SIGNATURE_BYTES ? { ...fields, eventHash, sealedAt } : null;
  } catch (error) {
    // Too short, not UTF-8, or a time that is none.
    if (error instanceof RangeError || error instanceof TypeError) return null;
    throw error;
  }
}

function timeOf(microseconds: number): string {
  const fraction = String(((microseconds % 1_000_000) + 1_000_000) % 1_000_000).padStart(6, '0');
  return new Date(Math.floor(microseconds / 1000)).toISOString().replace(/\.\d{3}Z$/, `.${fraction}Z`);
}

class Reader {
  constructor(
    private readonly bytes: Uint8Array,
    public position: number,
  ) {}

  take(length: number): Uint8Array {
    const end = this.position + length;
    if (length < 0 || end > this.bytes.length) throw new RangeError('The entry ends too early.');
    const part = this.bytes.subarray(this.position, end);
    this.position = end;
    return part;
  }

  integer(): number {
    const value = Number(this.view(8).getBigInt64(0));
    if (!Number.isSafeInteger(value)) throw new RangeError('A number of the entry is too large.');
    return value;
  }

  text(): string {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.take(this.view(4).getInt32(0)));
  }

  uuid(): string {
    return hex(this.take(16)).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }

  private view(length: number): DataView {
    const { buffer, byteOffset } = this.take(length);
    return new DataView(buffer, byteOffset, length);
  }
}
