import { DomainError, malformedBody, type ProblemFault } from '../problems/index.js';
import { toJsonPointer } from '../common/index.js';
import { isKept } from './json-number.js';

export const MAX_JSON_DEPTH = 32;

/**
 * Reads a body as strict JSON (I-JSON, RFC 7493, and a little stricter).
 *
 * lossless-json was tried first: it takes a duplicate member whose value is equal to the first one, has no limit of
 * depth (a megabyte of `[` overflows its stack), and says nothing of surrogates, so half of the checks would have to be
 * a second pass over text that it already read. This scanner does them in one pass, linear in time; the limit of depth
 * is what makes its recursion safe.
 *
 * @returns plain objects, arrays, strings, finite numbers, booleans, null. Every number says what its text said.
 * @throws DomainError `malformed-body`: not UTF-8, a byte order mark, empty, not JSON, a duplicate member, deeper than
 *   32, a NUL or a lone surrogate in a string or name, an integer beyond 2^53 or a number that would be rounded
 */
export function parseJsonBody(bytes: Uint8Array): { value: unknown } {
  return { value: new JsonScanner(decodeUtf8(bytes)).scan() };
}

// ignoreBOM keeps a byte order mark in the text, where the scanner refuses it like any other stray character.
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw malformed({ detail: 'The body is not valid UTF-8.' }, error);
  }
}

function malformed(fault: ProblemFault, cause?: unknown): DomainError<typeof malformedBody> {
  return new DomainError(malformedBody, fault.detail, { errors: [fault] }, { cause });
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const HEX4 = /[0-9a-fA-F]{4}/y;
const LONE_SURROGATE = /\p{Surrogate}/u;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

class JsonScanner {
  private at = 0;
  private readonly path: (string | number)[] = [];

  constructor(private readonly text: string) {}

  scan(): unknown {
    this.skipWhitespace();
    if (this.at === this.text.length) this.fail('The body is empty.');
    const value = this.scanValue(0);
    this.skipWhitespace();
    if (this.at < this.text.length) this.fail('There is more text after the JSON value.');
    return value;
  }

  private scanValue(depth: number): unknown {
    switch (this.text[this.at]) {
      case '{':
        return this.scanObject(depth + 1);
      case '[':
        return this.scanArray(depth + 1);
      case '"':
        return this.scanString();
      case 't':
        return this.scanWord('true', true);
      case 'f':
        return this.scanWord('false', false);
      case 'n':
        return this.scanWord('null', null);
      default:
        return this.scanNumber();
    }
  }

  private scanObject(depth: number): Record<string, unknown> {
    this.enter(depth);
    const object: Record<string, unknown> = {};
    if (this.skipIf('}')) return object;
    do {
      this.skipWhitespace();
      if (this.text[this.at] !== '"') this.fail('A member name in double quotes is expected here.');
      const start = this.at;
      const name = this.scanString();
      this.path.push(name);
      // The name is compared as it reads, so that escapes can't hide a second one.
      if (Object.hasOwn(object, name)) this.fail('The member occurs more than once.', start);
      this.skipWhitespace();
      this.expect(':', 'A colon is expected here.');
      this.skipWhitespace();
      setOwn(object, name, this.scanValue(depth));
      this.path.pop();
      this.skipWhitespace();
    } while (this.skipIf(','));
    this.expect('}', 'A comma or a closing brace is expected here.');
    return object;
  }

  private scanArray(depth: number): unknown[] {
    this.enter(depth);
    const array: unknown[] = [];
    if (this.skipIf(']')) return array;
    do {
      this.skipWhitespace();
      this.path.push(array.length);
      array.push(this.scanValue(depth));
      this.path.pop();
      this.skipWhitespace();
    } while (this.skipIf(','));
    this.expect(']', 'A comma or a closing bracket is expected here.');
    return array;
  }

  private enter(depth: number): void {
    if (depth > MAX_JSON_DEPTH) this.fail(`The nesting is deeper than ${MAX_JSON_DEPTH} levels.`);
    this.at += 1;
    this.skipWhitespace();
  }

  private scanString(): string {
    const start = this.at;
    this.at += 1;
    let result = '';
    let chunk = this.at;
    let escaped = false;
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      if (unit === QUOTE) break;
      if (unit === BACKSLASH) {
        result += this.text.slice(chunk, this.at) + this.scanEscape();
        chunk = this.at;
        escaped = true;
      } else if (unit >= 0x20) {
        this.at += 1;
      } else {
        // NaN beyond the end compares as neither.
        this.fail(
          this.at >= this.text.length ? 'The string is not closed.' : 'A control character must be escaped here.',
        );
      }
    }
    result = escaped ? result + this.text.slice(chunk, this.at) : this.text.slice(chunk, this.at);
    this.at += 1;
    // Unescaped, neither can be there: the decoder refuses surrogates, the loop above control characters.
    if (escaped && result.includes('\0')) this.fail('NUL (U+0000) is not accepted in text.', start);
    if (escaped && LONE_SURROGATE.test(result)) this.fail('A lone surrogate is not accepted in text.', start);
    return result;
  }

  private scanEscape(): string {
    const letter = this.text[this.at + 1] ?? '';
    const simple = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (simple !== undefined) {
      this.at += 2;
      return simple;
    }
    HEX4.lastIndex = this.at + 2;
    const digits = letter === 'u' ? HEX4.exec(this.text)?.[0] : undefined;
    if (digits === undefined) this.fail('This is not a valid escape sequence.');
    this.at += 6;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

  private scanNumber(): number {
    NUMBER.lastIndex = this.at;
    const literal = NUMBER.exec(this.text)?.[0];
    if (literal === undefined) {
      this.fail(this.at >= this.text.length ? 'The text ends too early.' : 'A JSON value is expected here.');
    }
    const value = Number(literal);
    if (!Number.isFinite(value)) this.fail('The number is too large.');
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      this.fail('The integer is beyond 2^53 and would be rounded.');
    }
    if (!isKept(literal, value)) this.fail(`The number has more digits than can be kept; ${value} is what would be.`);
    this.at += literal.length;
    // -0 is 0 everywhere else: in its canonical form, in PostgreSQL, and to the caller.
    return value === 0 ? 0 : value;
  }

  private scanWord<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail('A JSON value is expected here.');
    this.at += word.length;
    return value;
  }

  private expect(character: string, detail: string): void {
    if (!this.skipIf(character)) this.fail(this.at >= this.text.length ? 'The text ends too early.' : detail);
  }

  private skipIf(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private skipWhitespace(): void {
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.at += 1;
    }
  }

  private fail(detail: string, at = this.at): never {
    const before = this.text.slice(0, at);
    const lineStart = before.lastIndexOf('\n') + 1;
    throw malformed({
      pointer: toJsonPointer(this.path),
      detail,
      line: before.split('\n').length,
      column: at - lineStart + 1,
    });
  }
}

/** Assigning to `__proto__` would set the prototype instead of a member. */
function setOwn(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__') {
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[name] = value;
  }
}
