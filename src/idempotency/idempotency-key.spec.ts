import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseIdempotencyKey } from './idempotency-key.js';

describe('an Idempotency-Key header', () => {
  test.each([
    ['k', 'k'],
    ['"k"', 'k'],
    ['  "k" ', 'k'],
    ['8e03978e-40d5-43dd-bc93-6894a57f9324', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
    [String.raw`"say \"hi\""`.replace(' ', '-'), 'say-"hi"'],
    [String.raw`"a\\b"`, String.raw`a\b`],
    [String.raw`a\b`, String.raw`a\b`],
    ['a"b', 'a"b'],
    ['x'.repeat(255), 'x'.repeat(255)],
    [`"${'x'.repeat(255)}"`, 'x'.repeat(255)],
    ['~!#$%&()*+-./:;<=>?@[]^_`{|}', '~!#$%&()*+-./:;<=>?@[]^_`{|}'],
  ])('%j names the key %j', (header, key) => {
    expect(parseIdempotencyKey(header)).toBe(key);
  });

  test.each([
    ['empty', ''],
    ['empty in quotes', '""'],
    ['longer than 255', 'x'.repeat(256)],
    ['longer than 255 in quotes', `"${'x'.repeat(256)}"`],
    ['two keys, as Node joins them', 'a, b'],
    ['two equal keys, as Node joins them', '"a", "a"'],
    ['with a comma', 'a,b'],
    ['with a space', 'a b'],
    ['with a tab', 'a\tb'],
    ['with a control character', 'a\u0007b'],
    ['with DEL', 'a\u007fb'],
    ['beyond ASCII', 'schlüssel'],
    ['a quote that is not closed', '"k'],
    ['a quote in the middle of quotes', '"a"b"'],
    ['an escape of neither quote nor backslash', String.raw`"a\b"`],
    ['with parameters', '"k";v=1'],
  ])('%s names none', (_what, header) => {
    expect(parseIdempotencyKey(header)).toBeNull();
  });

  test('quoted as RFC 8941 says, any key is the key itself', () => {
    const character = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
    const key = fc.string({ unit: character, minLength: 1, maxLength: 255 }).filter((text) => !text.includes(','));
    fc.assert(
      fc.property(key, (text) => {
        expect(parseIdempotencyKey(`"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`)).toBe(text);
      }),
    );
  });
});
