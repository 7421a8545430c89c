const KEY_BYTES = 16;
const HASH_BYTES = 32;
const ENTRY_BYTES = KEY_BYTES + HASH_BYTES + 4;
const CHUNK_ENTRIES = 16_384;
const FIRST_SLOTS = 1024;
/** Above this share of used slots the index doubles. */
const FULL = 0.8;

/** The last event that was seen of a stream. */
export interface StreamEnd {
  version: number;
  hash: Buffer;
}

/**
 * The end of each stream, in at most 76 bytes a stream whatever its name: 52 in a dense array, and an index of four
 * bytes a slot that is at least two fifths full. Streams are told apart by 128 bits of their genesis hash.
 */
export class StreamTable {
  private readonly chunks: Buffer[] = [];
  private slots = new Uint32Array(FIRST_SLOTS);
  private count = 0;

  get size(): number {
    return this.count;
  }

  /** Bytes that the table holds. */
  get bytes(): number {
    return this.chunks.length * CHUNK_ENTRIES * ENTRY_BYTES + this.slots.byteLength;
  }

  /** @param genesis hash of 32 bytes that is the stream's own */
  get(genesis: Buffer): StreamEnd | undefined {
    const entry = this.slots[this.slotOf(genesis.subarray(0, KEY_BYTES))] ?? 0;
    if (entry === 0) return undefined;
    const { chunk, offset } = this.place(entry - 1);
    return {
      version: chunk.readUInt32BE(offset + KEY_BYTES + HASH_BYTES),
      hash: chunk.subarray(offset + KEY_BYTES, offset + KEY_BYTES + HASH_BYTES),
    };
  }

  set(genesis: Buffer, { version, hash }: StreamEnd): void {
    const key = genesis.subarray(0, KEY_BYTES);
    let slot = this.slotOf(key);
    if (this.slots[slot] === 0) {
      if (this.count + 1 > this.slots.length * FULL) {
        this.grow();
        slot = this.slotOf(key);
      }
      if (this.count === this.chunks.length * CHUNK_ENTRIES)
        this.chunks.push(Buffer.alloc(CHUNK_ENTRIES * ENTRY_BYTES));
      this.count += 1;
      this.slots[slot] = this.count;
    }
    const { chunk, offset } = this.place((this.slots[slot] ?? 0) - 1);
    key.copy(chunk, offset);
    hash.copy(chunk, offset + KEY_BYTES);
    chunk.writeUInt32BE(version, offset + KEY_BYTES + HASH_BYTES);
  }

  private place(entry: number): { chunk: Buffer; offset: number } {
    const chunk = this.chunks[Math.floor(entry / CHUNK_ENTRIES)];
    if (!chunk) throw new Error('the table has no such entry');
    return { chunk, offset: (entry % CHUNK_ENTRIES) * ENTRY_BYTES };
  }

  /** The slot of a key, or the free one where it would go. */
  private slotOf(key: Buffer): number {
    let slot = key.readUInt32BE(0) % this.slots.length;
    for (;;) {
      const entry = this.slots[slot] ?? 0;
      if (entry === 0) return slot;
      const { chunk, offset } = this.place(entry - 1);
      if (key.equals(chunk.subarray(offset, offset + KEY_BYTES))) return slot;
      slot = (slot + 1) % this.slots.length;
    }
  }

  private grow(): void {
    this.slots = new Uint32Array(this.slots.length * 2);
    for (let entry = 0; entry < this.count; entry += 1) {
      const { chunk, offset } = this.place(entry);
      this.slots[this.slotOf(chunk.subarray(offset, offset + KEY_BYTES))] = entry + 1;
    }
  }
}
