import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { mergePatch } from './merge-patch.js';

describe('a merge-patch', () => {
  // The table of RFC 7396, appendix A.
  it.each([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ a: 'b' }, ['c'], ['c']],
    [{ a: 'foo' }, null, null],
    [{ a: 'foo' }, 'bar', 'bar'],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('of %j with %j is %j', (target, patch, result) => {
    expect(mergePatch(target, patch)).toEqual(result);
  });

  it('takes __proto__ for a member like any other', () => {
    const patch = JSON.parse('{"__proto__":{"x":1},"a":{"__proto__":null}}') as unknown;
    const target = JSON.parse('{"a":{"__proto__":2,"b":3}}') as unknown;
    const result = mergePatch(target, patch);
    expect(JSON.stringify(result)).toBe('{"a":{"b":3},"__proto__":{"x":1}}');
    expect(({} as Record<string, unknown>).x).toBeUndefined();
  });

  const json = fc.jsonValue({ maxDepth: 4 });
  it('changes neither argument, and says the same when it is applied again', () => {
    fc.assert(
      fc.property(json, json, (target, patch) => {
        const [before, change] = [JSON.stringify(target), JSON.stringify(patch)];
        const once = mergePatch(target, patch);
        expect([JSON.stringify(target), JSON.stringify(patch)]).toEqual([before, change]);
        expect(mergePatch(once, patch)).toEqual(once);
      }),
    );
  });
});
