import { describe, expect, it } from '@jest/globals';

import { findMetadataFault, isText } from './value-checks.js';

describe('isText', () => {
  it('counts code points', () => {
    expect(isText('😀'.repeat(10), 1, 10)).toBe(true);
    expect(isText('😀'.repeat(11), 1, 10)).toBe(false);
    expect(isText('ab', 3, 10)).toBe(false);
    expect(isText('', 0, 10)).toBe(true);
    expect(isText('', 1, 10)).toBe(false);
  });

  it.each(['a\0b', 'a\nb', '\t', '\u0085', '\u2028', '\ud800', 'a\udc00', '   ', '\u00a0', '\u3000'])(
    'refuses %j',
    (text) => {
      expect(isText(text, 1, 10)).toBe(false);
    },
  );

  it.each([[1], [null], [undefined], [['a']], [{}], [true]])('refuses %p, which is no text', (value) => {
    expect(isText(value, 0, 10)).toBe(false);
  });

  it('takes what people write', () => {
    for (const text of ['Ada', 'O’Neil-Müller', '日本語', 'עברית', "Robert'); DROP TABLE x;--", '👩‍👩‍👧']) {
      expect(isText(text, 1, 40)).toBe(true);
    }
  });
});

describe('metadata', () => {
  it('is a JSON object within bounds', () => {
    const keys = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, index]));
    const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });
    expect(findMetadataFault({})).toBeUndefined();
    expect(findMetadataFault(keys(50))).toBeUndefined();
    expect(findMetadataFault(keys(51))).toContain('50 keys');
    expect(findMetadataFault({ ['k'.repeat(64)]: 1 })).toBeUndefined();
    expect(findMetadataFault({ ['k'.repeat(65)]: 1 })).toContain('64 characters');
    expect(findMetadataFault({ '': 1 })).toContain('64 characters');
    expect(findMetadataFault(nested(8))).toBeUndefined();
    expect(findMetadataFault(nested(9))).toContain('8 levels');
    expect(findMetadataFault({ a: 'x'.repeat(16_384 - 8) })).toBeUndefined();
    expect(findMetadataFault({ a: 'x'.repeat(16_384 - 7) })).toContain('16384 bytes');
    expect(findMetadataFault({ a: '€'.repeat(6_000) })).toContain('16384 bytes');
    for (const value of [null, [], 'x', 1, undefined]) expect(findMetadataFault(value)).toContain('JSON object');
  });
});
