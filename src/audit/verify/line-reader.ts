/** The bytes are not what the format has at this place. */
export class NotAsWritten extends Error {
  override readonly name = 'NotAsWritten';
}

const NONE = -1;
const [QUOTE, BACKSLASH, ZERO, LOWER_U, SPACE] = [0x22, 0x5c, 0x30, 0x75, 0x20];
/** The letter of each short escape, and what it stands for. */
const SHORT_ESCAPES = tableOf({ '"': 0x22, '\\': 0x5c, b: 0x08, f: 0x0c, n: 0x0a, r: 0x0d, t: 0x09 });
const HEX = tableOf(Object.fromEntries([...'0123456789abcdef'].map((digit, value) => [digit, value])));
const BASE64 = tableOf(
  Object.fromEntries(
    [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].map((digit, value) => [digit, value]),
  ),
);
/** Where the hyphens of a UUID are. */
const HYPHENS: ReadonlySet<number> = new Set([8, 13, 18, 23]);
const PAST_SAFE = 2 ** 53;

/**
 * Reads JSON that is written in one way only, straight from its bytes, which are UTF-8: no white space, integers in plain
 * decimal, strings as `JSON.stringify` and RFC 8785 write them. Every method throws `NotAsWritten` where it finds anything
 * else.
 */
export class LineReader {
  private bytes: Buffer = Buffer.alloc(0);
  private at = 0;

  begin(bytes: Buffer): void {
    this.bytes = bytes;
    this.at = 0;
  }

  /** Where the next byte is read. */
  get position(): number {
    return this.at;
  }

  literal(expected: Uint8Array): void {
    const { bytes } = this;
    let { at } = this;
    for (const byte of expected) if (bytes[at++] !== byte) throw new NotAsWritten();
    this.at = at;
  }

  end(): void {
    if (this.at !== this.bytes.length) throw new NotAsWritten();
  }

  /** A whole number from 0 to 2^53 - 1. */
  integer(): number {
    const { bytes } = this;
    const begin = this.at;
    let at = begin;
    let value = 0;
    for (let digit = digitOf(bytes[at]); digit !== NONE; digit = digitOf(bytes[at])) {
      value = value * 10 + digit;
      if (value >= PAST_SAFE) throw new NotAsWritten();
      at += 1;
    }
    if (at === begin || (bytes[begin] === ZERO && at > begin + 1)) throw new NotAsWritten();
    this.at = at;
    return value;
  }

  /**
   * The text of a string without its escapes, in UTF-8.
   *
   * @param target has room for the rest of the line
   * @returns where it ends in there
   */
  string(target: Buffer, begin: number): number {
    const { bytes } = this;
    let at = this.opening();
    let to = begin;
    for (;;) {
      let byte = bytes[at++];
      if (byte === QUOTE) break;
      if (byte === undefined || byte < SPACE) throw new NotAsWritten();
      if (byte === BACKSLASH) {
        const letter = bytes[at++] ?? 0;
        byte = SHORT_ESCAPES[letter] ?? NONE;
        if (byte === NONE) {
          if (letter !== LOWER_U) throw new NotAsWritten();
          byte = controlOf(bytes, at);
          at += 4;
        }
      }
      target[to++] = byte;
    }
    this.at = at;
    return to;
  }

  /** @param length of what the digits stand for */
  hex(target: Buffer, begin: number, length: number): void {
    let at = this.opening();
    at = this.hexDigits(target, begin, length, at);
    this.close(at);
  }

  /** 16 bytes. */
  uuid(target: Buffer, begin: number): void {
    const start = this.opening();
    let at = start;
    for (let to = begin; to < begin + 16; to += 1) {
      if (HYPHENS.has(at - start) && this.bytes[at++] !== 0x2d) throw new NotAsWritten();
      at = this.hexDigits(target, to, 1, at);
    }
    this.close(at);
  }

  /** 64 bytes in base64, with padding. */
  signature(target: Buffer, begin: number): void {
    const { bytes } = this;
    let at = this.opening();
    let to = begin;
    for (let group = 0; group < 21; group += 1, at += 4) {
      const [a, b] = [this.base64Digit(at), this.base64Digit(at + 1)];
      const [c, d] = [this.base64Digit(at + 2), this.base64Digit(at + 3)];
      target[to++] = (a << 2) | (b >> 4);
      target[to++] = ((b & 15) << 4) | (c >> 2);
      target[to++] = ((c & 3) << 6) | d;
    }
    const [a, b] = [this.base64Digit(at), this.base64Digit(at + 1)];
    if ((b & 15) !== 0 || bytes[at + 2] !== 0x3d || bytes[at + 3] !== 0x3d) throw new NotAsWritten();
    target[to] = (a << 2) | (b >> 4);
    this.close(at + 4);
  }

  private opening(): number {
    if (this.bytes[this.at] !== QUOTE) throw new NotAsWritten();
    return this.at + 1;
  }

  private close(at: number): void {
    if (this.bytes[at] !== QUOTE) throw new NotAsWritten();
    this.at = at + 1;
  }

  private hexDigits(target: Buffer, begin: number, length: number, from: number): number {
    const { bytes } = this;
    let at = from;
    for (let to = begin; to < begin + length; to += 1) {
      const high = HEX[bytes[at++] ?? 0] ?? NONE;
      const low = HEX[bytes[at++] ?? 0] ?? NONE;
      if (high === NONE || low === NONE) throw new NotAsWritten();
      target[to] = (high << 4) | low;
    }
    return at;
  }

  private base64Digit(at: number): number {
    const value = BASE64[this.bytes[at] ?? 0] ?? NONE;
    if (value === NONE) throw new NotAsWritten();
    return value;
  }
}

function digitOf(byte: number | undefined): number {
  return byte !== undefined && byte >= ZERO && byte <= 0x39 ? byte - ZERO : NONE;
}

/** The control character of an escape `\u00…`; those that have a short one are not written so. */
function controlOf(bytes: Buffer, at: number): number {
  const [high, low] = [HEX[bytes[at + 2] ?? 0] ?? NONE, HEX[bytes[at + 3] ?? 0] ?? NONE];
  const value = (high << 4) | low;
  const isControl = bytes[at] === ZERO && bytes[at + 1] === ZERO && high !== NONE && low !== NONE && value < SPACE;
  if (!isControl || SHORT_ESCAPES.includes(value)) throw new NotAsWritten();
  return value;
}

/** By byte: what a character stands for, or -1. */
function tableOf(values: Record<string, number>): Int16Array {
  const table = new Int16Array(256).fill(NONE);
  for (const [character, value] of Object.entries(values)) table[character.charCodeAt(0)] = value;
  return table;
}
