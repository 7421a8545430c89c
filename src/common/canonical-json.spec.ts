import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';

import { canonicalJson } from './canonical-json.js';

function canonicalText(text: string): string {
  return canonicalJson(JSON.parse(text));
}

function fromBits(hex: string): number {
  return Buffer.from(hex, 'hex').readDoubleBE();
}

describe('canonicalJson', () => {
  it('gives the text of the example in RFC 8785, section 3.2', () => {
    const value: unknown = JSON.parse(String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`);
    expect(canonicalJson(value)).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    );
  });

  it('sorts members by UTF-16 code units, as the example in section 3.2.3', () => {
    const names = ['\u20ac', '\r', '\ufb33', '1', '\u{1f600}', '\u0080', '\u00f6'];
    const value = Object.fromEntries(names.map((name) => [name, 0]));
    expect(Object.keys(JSON.parse(canonicalJson(value)) as object)).toHaveLength(7);
    expect(canonicalJson(value)).toBe('{"\\r":0,"1":0,"\u0080":0,"\u00f6":0,"\u20ac":0,"\u{1f600}":0,"\ufb33":0}');
  });

  it.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('writes the number %s of appendix B as %s', (bits, text) => {
    expect(canonicalJson(fromBits(bits))).toBe(text);
  });

  it('refuses what JSON does not have', () => {
    const refused = [
      undefined,
      NaN,
      Infinity,
      1n,
      () => 1,
      Symbol('x'),
      new Date(),
      new Map(),
      '\ud800',
      { '\udc00': 1 },
    ];
    for (const value of [...refused, { a: undefined }, [undefined], Array(1)]) {
      expect(() => canonicalJson(value)).toThrow(TypeError);
    }
  });

  it('is one text for all ways to write a number', () => {
    for (const text of ['1', '1.0', '1e0', '10e-1', '0.1e1', '1.00E+0']) expect(canonicalText(text)).toBe('1');
    for (const text of ['0', '-0', '0.0', '-0e5']) expect(canonicalText(text)).toBe('0');
  });

  it('does not depend on the order of members, and does on that of elements', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ stringUnit: 'grapheme' })),
        (object) => {
          const reversed = Object.fromEntries(Object.entries(object).toReversed());
          expect(canonicalJson(reversed)).toBe(canonicalJson(object));
        },
      ),
    );
    expect(canonicalJson([1, 2])).not.toBe(canonicalJson([2, 1]));
  });

  it('reads back as the same value and is then canonical already', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});
