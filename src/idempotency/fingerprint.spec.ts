import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { canonicalJson } from '../common/index.js';
import { parseJsonBody } from '../http/index.js';
import { requestFingerprint, type RequestIdentity } from './fingerprint.js';

const REQUEST: RequestIdentity = {
  method: 'POST',
  url: '/v1/orders/7/transitions?a=1&b=2',
  principal: '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11',
  contentType: 'application/json',
  ifMatch: '"3"',
  canonicalBody: '{"to":"confirmed"}',
};

function hash(changes: Partial<RequestIdentity> = {}): string {
  return requestFingerprint({ ...REQUEST, ...changes }).toString('hex');
}

/** As the content-type parser makes it of a body's text. */
function hashOfBody(text: string): string {
  return hash({ canonicalBody: canonicalJson(parseJsonBody(Buffer.from(text)).value) });
}

const text = fc.string({ unit: 'grapheme' }).filter((value) => !/\0|\p{Surrogate}/u.test(value));
const json = fc.jsonValue({ maxDepth: 4 }).filter((value) => !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value)));

/** The same value, written with members backwards and white space. */
function rewrite(value: unknown): string {
  if (Array.isArray(value)) return `[ ${value.map(rewrite).join(' ,\n')} ]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).toReversed();
  return `{\t${members.map(([name, member]) => `${JSON.stringify(name)} : ${rewrite(member)}`).join(' , ')}\r\n}`;
}

describe('two requests are the same', () => {
  test('whatever the order of members and the white space', () => {
    fc.assert(
      fc.property(json, (value) => {
        fc.pre(isReadable(JSON.stringify(value)));
        expect(hashOfBody(rewrite(value))).toBe(hashOfBody(JSON.stringify(value)));
      }),
    );
  });

  test.each([['1'], ['1.0'], ['1e0'], ['10e-1'], ['0.1e1'], ['1.000']])('when a number is written %s', (number) => {
    expect(hashOfBody(`{"n":[${number}]}`)).toBe(hashOfBody('{"n":[1]}'));
  });

  test('when text is escaped another way', () => {
    fc.assert(
      fc.property(text, (value) => {
        const escaped = [...value].flatMap((c) =>
          c.split('').map((u) => `\\u${u.charCodeAt(0).toString(16).padStart(4, '0')}`),
        );
        expect(hashOfBody(`["${escaped.join('')}"]`)).toBe(hashOfBody(JSON.stringify([value])));
      }),
    );
  });

  test('whatever the order of query parameters and their encoding', () => {
    const parameters = fc.uniqueArray(fc.tuple(text, text), { selector: ([name]) => name, maxLength: 6 });
    fc.assert(
      fc.property(parameters, fc.nat(), (pairs, turn) => {
        const query = (list: typeof pairs): string =>
          list.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
        const cut = pairs.length === 0 ? 0 : turn % pairs.length;
        const turned = [...pairs.slice(cut), ...pairs.slice(0, cut)].toReversed();
        expect(hash({ url: `/x?${query(turned)}` })).toBe(hash({ url: `/x?${query(pairs)}` }));
      }),
    );
    expect(hash({ url: '/x?q=a+b' })).toBe(hash({ url: '/x?q=a%20b' }));
  });

  test.each([['application/json; charset=utf-8'], ['Application/JSON'], [' application/json ;x=1']])(
    'when the media type is written %j',
    (contentType) => {
      expect(hash({ contentType })).toBe(hash());
    },
  );
});

describe('two requests differ', () => {
  test.each<[string, Partial<RequestIdentity>]>([
    ['method', { method: 'PATCH' }],
    ['path', { url: '/v1/orders/8/transitions?a=1&b=2' }],
    ['query', { url: '/v1/orders/7/transitions?a=1&b=3' }],
    ['a missing query', { url: '/v1/orders/7/transitions' }],
    ['caller', { principal: '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d12' }],
    ['media type', { contentType: 'application/merge-patch+json' }],
    ['a missing media type', { contentType: undefined }],
    ['If-Match', { ifMatch: '"4"' }],
    ['a missing If-Match', { ifMatch: undefined }],
    ['an empty If-Match', { ifMatch: '' }],
    ['body', { canonicalBody: '{"to":"canceled"}' }],
    ['a missing body', { canonicalBody: '' }],
  ])('in their %s', (_what, changes) => {
    expect(hash(changes)).not.toBe(hash());
  });

  test('when JSON values differ, in nested arrays and in the order of elements too', () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        fc.pre(isReadable(JSON.stringify(a)) && isReadable(JSON.stringify(b)));
        expect(hashOfBody(JSON.stringify([[a], b])) === hashOfBody(JSON.stringify([[b], a]))).toBe(
          canonicalJson(a) === canonicalJson(b),
        );
      }),
    );
    expect(hashOfBody('[[1,2],[3]]')).not.toBe(hashOfBody('[[1],[2,3]]'));
    expect(hashOfBody('[1,"1"]')).not.toBe(hashOfBody('["1",1]'));
  });

  test('when letters only look alike', () => {
    expect(hashOfBody('["é"]')).not.toBe(hashOfBody('["e\u0301"]'));
  });

  test('when a text moves over the boundary between two fields', () => {
    const fields = ['method', 'principal', 'contentType', 'ifMatch', 'canonicalBody'] as const;
    const word = fc.stringMatching(/^[a-z0-9]{1,6}$/);
    fc.assert(
      fc.property(word, word, word, fc.nat(3), (a, b, c, at) => {
        const [left, right] = [fields[at] ?? 'method', fields[at + 1] ?? 'principal'];
        expect(hash({ [left]: a + b, [right]: c })).not.toBe(hash({ [left]: a, [right]: b + c }));
      }),
    );
    expect(hash({ url: '/x?a=1&b=2' })).not.toBe(hash({ url: '/x?a=1%26b%3D2' }));
    expect(hash({ url: '/x?ab=c' })).not.toBe(hash({ url: '/x?a=bc' }));
    expect(hash({ url: '/x?a=1&a=2' })).not.toBe(hash({ url: '/x?a=2&a=1' }));
    expect(hash({ url: '/x?a=1', method: 'POST' })).not.toBe(hash({ url: '/x', method: 'POST' }));
  });
});

/** Property-based JSON holds numbers that the parser refuses, since they would be rounded. */
function isReadable(body: string): boolean {
  try {
    parseJsonBody(Buffer.from(body));
    return true;
  } catch {
    return false;
  }
}
