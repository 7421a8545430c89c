import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { DomainError, type ProblemFault } from '../problems/index.js';
import { parseJsonBody } from './json-body.js';

function read(text: string | Uint8Array): unknown {
  return parseJsonBody(typeof text === 'string' ? Buffer.from(text) : text).value;
}

function faultOf(text: string | Uint8Array): ProblemFault {
  try {
    read(text);
  } catch (error) {
    if (error instanceof DomainError && error.code === 'malformed-body') {
      return (error.members as unknown as { errors: ProblemFault[] }).errors[0] as ProblemFault;
    }
    throw error;
  }
  throw new Error(`accepted: ${String(text).slice(0, 80)}`);
}

describe('parseJsonBody', () => {
  it('reads whatever JSON.parse reads, to the same value', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 10, stringUnit: 'grapheme' }),
        fc.constantFrom(undefined, 2),
        (value, indent) => {
          const text = JSON.stringify(value, undefined, indent).replaceAll('-0', '0');
          fc.pre(!hasLargeIntegerOrNul(value));
          expect(read(text)).toEqual(JSON.parse(text));
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('accepts nothing that JSON.parse refuses, and throws nothing but malformed-body', () => {
    const soup = fc.string({ unit: fc.constantFrom(...'{}[]",:\\u0081eE+-.truefalsn \n\t/bd'), maxLength: 24 });
    fc.assert(
      fc.property(
        fc.oneof(
          soup,
          fc.json().map((text) => text.slice(1)),
          fc.json().map((text) => `${text},`),
        ),
        (text) => {
          let value: unknown;
          try {
            value = read(text);
          } catch (error) {
            expect(error).toMatchObject({ code: 'malformed-body' });
            return;
          }
          expect(JSON.parse(text.replaceAll(/-0(?![\d.])/g, '0'))).toEqual(value);
        },
      ),
      { numRuns: 5000 },
    );
  });

  it('throws nothing but malformed-body for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        try {
          read(bytes);
        } catch (error) {
          expect(error).toMatchObject({ code: 'malformed-body' });
        }
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    ['{"a":1,"a":1}', '/a'],
    ['{"a":1,"a":2}', '/a'],
    ['{"a":1,"\\u0061":1}', '/a'],
    ['{"x":[{"a/b":{"~":1,"~":1}}]}', '/x/0/a~1b/~0'],
    ['{"__proto__":1,"__proto__":1}', '/__proto__'],
    ['{"constructor":1,"constructor":1}', '/constructor'],
    ['{"":1,"":1}', '/'],
  ])('refuses the duplicate member in %s', (text, pointer) => {
    expect(faultOf(text)).toMatchObject({ pointer, detail: 'The member occurs more than once.' });
  });

  it('takes the names of Object.prototype as plain members', () => {
    const value = read(
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{}},"hasOwnProperty":1,"toString":2}',
    ) as object;
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor', 'hasOwnProperty', 'toString']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('reads 32 levels and refuses the 33rd', () => {
    expect(() => read('['.repeat(32) + ']'.repeat(32))).not.toThrow();
    expect(() => read('{"a":'.repeat(32) + '1' + '}'.repeat(32))).not.toThrow();
    expect(faultOf('['.repeat(33) + ']'.repeat(33)).detail).toContain('deeper than 32');
    expect(faultOf('['.repeat(1_048_576)).detail).toContain('deeper than 32');
    expect(faultOf('{"a":'.repeat(200_000)).detail).toContain('deeper than 32');
  });

  it.each([
    [[0x22, 0xff, 0x22]],
    [[0x22, 0xc0, 0x80, 0x22]],
    [[0x22, 0xed, 0xa0, 0x80, 0x22]],
    [[0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]],
    [[0x22, 0xe2, 0x82, 0x22]],
  ])('refuses bytes that are not UTF-8: %j', (bytes) => {
    expect(faultOf(Uint8Array.from(bytes)).detail).toContain('UTF-8');
  });

  it('refuses a byte order mark, and text in UTF-16 or UTF-32', () => {
    faultOf('\ufeff{}');
    faultOf(Buffer.from('{}', 'utf16le'));
    faultOf(Buffer.from([0, 0, 0, 0x7b, 0, 0, 0, 0x7d]));
  });

  it.each([
    '"\\ud800"',
    '"\\udc00"',
    '"\\udc00\\ud800"',
    '"\\ud800x"',
    '{"\\ud800":1}',
    '"a\\ud83d"',
    '"\\ud83d\\u0041"',
  ])('refuses the lone surrogate in %s', (text) => {
    expect(faultOf(text).detail).toContain('surrogate');
  });

  it('joins escaped surrogate pairs', () => {
    expect(read('"\\ud83d\\ude00\\uD83D\\uDE00😀"')).toBe('😀😀😀');
  });

  it.each(['"\\u0000"', '"a\\u0000b"', '{"\\u0000":1}', '{"a":{"x\\u0000":1}}'])('refuses the NUL in %s', (text) => {
    expect(faultOf(text).detail).toContain('NUL');
  });

  it.each([
    '9007199254740992',
    '9007199254740993',
    '-9007199254740993',
    '1e16',
    '123456789012345678901',
    '9007199254740993.0',
    '1e300',
  ])('refuses the integer %s, which is beyond 2^53', (text) => {
    expect(faultOf(`[${text}]`)).toMatchObject({ pointer: '/0', detail: expect.stringContaining('2^53') });
  });

  it.each([
    '9007199254740991',
    '-9007199254740991',
    '9007199254740991.0',
    '9.007199254740991e15',
    '90071992547409910e-1',
  ])('reads the exact integer %s', (text) => {
    expect(Math.abs(read(text) as number)).toBe(Number.MAX_SAFE_INTEGER);
  });

  it.each([
    '1.0000000000000000001',
    '9007199254740990.9999',
    '1e-400',
    '-0.1e-400',
    '0.99999999999999999999',
    '123456.789012345678901',
    '0.10000000000000000001',
    '-1.2345678901234567e-7',
    '1e-99999999999999999999',
  ])('refuses the decimal %s, which would become another', (text) => {
    expect(faultOf(text).detail).toContain('more digits');
  });

  it('names the number that would be left', () => {
    expect(faultOf('123456.789012345678901').detail).toContain('123456.78901234567 is what would be');
  });

  it('keeps every number of 15 digits, in every way to write it, and every double in its own form', () => {
    const digits = fc.integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 });
    fc.assert(
      fc.property(digits, fc.integer({ min: -280, max: 0 }), fc.nat(5), (mantissa, exponent, zeros) => {
        for (const text of [`${mantissa}e${exponent}`, `${mantissa}.${'0'.repeat(zeros + 1)}E${exponent}`])
          expect(read(text)).toBe(Number(text) === 0 ? 0 : Number(text));
      }),
    );
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        if (Number.isInteger(value)) return;
        expect(read(String(value))).toBe(value);
        expect(faultOf(`${value.toExponential(16).replace('e', '01e')}`).detail).toContain('more digits');
      }),
    );
  });

  it('refuses numbers that overflow, and keeps decimals', () => {
    expect(faultOf('1e309').detail).toContain('too large');
    expect(faultOf(`1${'0'.repeat(400)}`).detail).toContain('too large');
    expect(read('[0.1,-2.5e-3,1e2,0.0,5e-324]')).toEqual([0.1, -0.0025, 100, 0, 5e-324]);
    expect(Object.is(read('-0'), 0)).toBe(true);
  });

  it.each([
    '',
    '  \n',
    '{',
    '[1,]',
    '{"a":1,}',
    '{a:1}',
    "'a'",
    '01',
    '1.',
    '.5',
    '+1',
    '-',
    '1e',
    'NaN',
    'tru',
    'nullx',
    '"\n"',
    '"\\x"',
    '"\\u12g4"',
    '"\\',
    '"',
    '1 2',
    '{} {}',
    '/**/1',
    '\u00a01',
    '[1}',
    '{"a"}',
    '{"a":}',
    '{,}',
    '[,]',
  ])('refuses %j with a place', (text) => {
    expect(faultOf(text)).toMatchObject({ line: expect.any(Number), column: expect.any(Number) });
  });

  it('names line and column from 1, and the pointer of the value', () => {
    expect(faultOf('{\n  "a": 1,\n  "b": [true, tru]\n}')).toEqual({
      pointer: '/b/1',
      detail: 'A JSON value is expected here.',
      line: 3,
      column: 15,
    });
  });
});

function hasLargeIntegerOrNul(value: unknown): boolean {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value);
  if (typeof value === 'string') return value.includes('\0') || value.includes('-0');
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, member]) => hasLargeIntegerOrNul(name) || hasLargeIntegerOrNul(member));
}
