import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { RawJson, writeJson } from './raw-json.js';

describe('JSON with parts that are written already', () => {
  it('is written as they are, wherever they stand', () => {
    const lines = new RawJson('[{"lineNo":1}, {"lineNo":2}]');
    expect(
      writeJson({
        data: [
          { id: 'a', lines },
          { lines, id: 'b' },
        ],
      }),
    ).toBe(
      '{"data":[{"id":"a","lines":[{"lineNo":1}, {"lineNo":2}]},{"lines":[{"lineNo":1}, {"lineNo":2}],"id":"b"}]}',
    );
    expect(writeJson(new RawJson('1.50'))).toBe('1.50');
  });

  it('means the same as the values themselves, whatever they hold', () => {
    const value = fc.jsonValue();
    fc.assert(
      fc.property(fc.array(fc.record({ raw: value, plain: value })), (rows) => {
        const mixed = rows.map(({ raw, plain }) => ({ raw: new RawJson(JSON.stringify(raw)), plain }));
        expect(JSON.parse(writeJson(mixed))).toEqual(JSON.parse(JSON.stringify(rows)));
        expect(JSON.parse(JSON.stringify(mixed))).toEqual(JSON.parse(JSON.stringify(rows)));
      }),
    );
  });

  it('takes members before its own', () => {
    const value = fc.dictionary(
      fc.string().filter((name) => name !== 'ref'),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(value, fc.constantFrom(undefined, 2), (own, indent) => {
        const raw = new RawJson(JSON.stringify(own, undefined, indent)).withMembers({ ref: 'c-1' });
        expect(JSON.parse(writeJson(raw))).toEqual(JSON.parse(JSON.stringify({ ref: 'c-1', ...own })));
      }),
    );
    expect(writeJson(new RawJson('{"name":"Ada"}').withMembers({ ref: 'c-1' }))).toBe('{"ref":"c-1","name":"Ada"}');
    expect(writeJson(new RawJson('{"name":"Ada"}').withMembers({}))).toBe('{"name":"Ada"}');
  });

  it('is none after a failure either: what comes next is written as if nothing had happened', () => {
    const circular: Record<string, unknown> = { raw: new RawJson('1') };
    circular.self = circular;
    expect(() => writeJson(circular)).toThrow(TypeError);
    expect(JSON.stringify({ raw: new RawJson('{"a": 1}') })).toBe('{"raw":{"a":1}}');
  });
});
