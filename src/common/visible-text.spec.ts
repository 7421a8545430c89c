import { describe, expect, it } from '@jest/globals';
import { isBlank, isReference } from './visible-text.js';

const LAST = 0x10ffff;

function* characters(): Generator<string> {
  for (let point = 0; point <= LAST; point += 1) {
    if (point < 0xd800 || point > 0xdfff) yield String.fromCodePoint(point);
  }
}

describe('what leaves no mark', () => {
  it('is every character that Unicode calls white space, control or ignorable, and three more kinds that show nothing', () => {
    const known = /^[\p{White_Space}\p{Cc}\p{Default_Ignorable_Code_Point}\u2800\uFFF9-\uFFFB]$/u;
    const wrong = [...characters()].filter((character) => isBlank(character) !== known.test(character));
    expect(wrong.map((character) => character.codePointAt(0)?.toString(16))).toEqual([]);
  });

  it('alone is blank, also many of them; with anything that shows it is not', () => {
    for (const text of ['', ' ', '\t', '\n', '\u00a0', '\u200b', '\ufeff \u2060', '\u{e0020}'])
      expect(isBlank(text)).toBe(true);
    for (const text of ['.', ' a', 'a\u200b', '\u0301', '👩‍👩‍👧', '日']) expect(isBlank(text)).toBe(false);
  });
});

describe('a reference', () => {
  it.each(['web-10001', 'a b', 'a/b', '...', '.a', 'Müller', '日本語', '50 %', '?#', '😀', '\u{10ffff}'])(
    'can be %j',
    (text) => {
      expect(isReference(text)).toBe(true);
    },
  );

  it.each([
    ['empty', ''],
    ['a segment that addresses leave out', '.'],
    ['a segment that addresses leave out', '..'],
    ['what ends in a space', 'a '],
    ['what begins with a space', ' a'],
    ['white space that is no space', 'a\u00a0b'],
    ['an invisible character', 'a\u200b'],
    ['a sign for another look', '❤\ufe0f'],
    ['another normalization form', 'Mu\u0308ller'],
    ['a control character', 'a\nb'],
  ])('is not %s: %j', (_why, text) => {
    expect(isReference(text)).toBe(false);
  });
});
