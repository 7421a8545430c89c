import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import {
  decodeCursor,
  encodeCursor,
  filterHash,
  InvalidCursor,
  MAX_CURSOR_LENGTH,
  type ExpectedCursor,
} from './cursor.js';

const expected: ExpectedCursor = {
  sort: '-placedAt',
  filterHash: filterHash({ status: ['pending'] }),
  kinds: ['timestamp', 'uuid'],
};
const values = ['2026-11-30T00:15:06.123456Z', '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11'];

function encodeJson(value: unknown): string {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
}

describe('cursors', () => {
  it('come back exact to the microsecond, in both directions', () => {
    for (const dir of ['next', 'prev'] as const) {
      const text = encodeCursor({ sort: expected.sort, filterHash: expected.filterHash, values, dir });
      expect(text).toMatch(/^[\w-]+$/);
      expect(decodeCursor(text, expected)).toEqual({
        sort: expected.sort,
        filterHash: expected.filterHash,
        values,
        dir,
      });
    }
  });

  it('keep any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
        fc.pre(!text.includes('\0'));
        const cursor = encodeCursor({ sort: 's', filterHash: 'f', values: [text] });
        expect(decodeCursor(cursor, { sort: 's', filterHash: 'f', kinds: ['text'] }).values).toEqual([text]);
      }),
    );
  });

  it('fit one sort order and one filter only', () => {
    const text = encodeCursor({ sort: expected.sort, filterHash: expected.filterHash, values });
    expect(() => decodeCursor(text, { ...expected, sort: 'placedAt' })).toThrow('another sort order');
    expect(() => decodeCursor(text, { ...expected, filterHash: filterHash({}) })).toThrow('another filter');
    expect(() => decodeCursor(text, { ...expected, kinds: ['timestamp'] })).toThrow('cannot be read');
  });

  it('of a hostile client are invalid and nothing else', () => {
    const hostile = fc.oneof(
      fc.string({ maxLength: 80 }),
      fc.string({ unit: fc.constantFrom(...'AZaz09-_=+/'), maxLength: 80 }),
      fc.json().map(encodeJson),
      fc.array(fc.jsonValue()).map((rest) => encodeJson([1, expected.sort, expected.filterHash, 'next', ...rest])),
      fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64url')),
    );
    fc.assert(
      fc.property(hostile, (text) => {
        expect(() => decodeCursor(text, expected)).toThrow(InvalidCursor);
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ['2026-11-30T00:15:06.123456Z', 'not-a-uuid'],
    ['2026-13-30T00:15:06.123456Z', values[1]],
    ['2026-11-30T00:15:06Z', values[1]],
    ["'; DROP TABLE orders; --", values[1]],
    [null, values[1]],
    [...values, 'more'],
    [],
  ])('with values of the wrong kind never reach SQL: %j', (...wrong) => {
    const text = encodeJson([1, expected.sort, expected.filterHash, 'next', ...wrong]);
    expect(() => decodeCursor(text, expected)).toThrow(InvalidCursor);
  });

  it.each([
    ['integer', '9223372036854775808'],
    ['integer', '1.5'],
    ['integer', '-0'],
    ['text', 'a\0b'],
    ['text', '\ud800'],
  ] as const)('of kind %s refuse %j', (kind, value) => {
    const text = encodeJson([1, 's', 'f', 'next', value]);
    expect(() => decodeCursor(text, { sort: 's', filterHash: 'f', kinds: [kind] })).toThrow('cannot be read');
  });

  it('have a bounded length', () => {
    expect(() => encodeCursor({ sort: 's', filterHash: 'f', values: ['x'.repeat(1000)] })).toThrow(RangeError);
    expect(() => decodeCursor('A'.repeat(MAX_CURSOR_LENGTH + 4), expected)).toThrow('cannot be read');
  });

  it('hash a filter whatever order its members have', () => {
    expect(filterHash({ a: 1, b: [2, 3] })).toBe(filterHash({ b: [2, 3], a: 1 }));
    expect(filterHash({ b: [3, 2], a: 1 })).not.toBe(filterHash({ b: [2, 3], a: 1 }));
  });
});
