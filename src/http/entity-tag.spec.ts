import { describe, expect, it } from '@jest/globals';
import { DomainError } from '../problems/index.js';
import { entityTag, versionOfIfMatch } from './entity-tag.js';

describe('an entity tag', () => {
  it('of a version is read back as that version', () => {
    for (const version of [1, 9, 10, 123_456_789]) expect(versionOfIfMatch(entityTag(version))).toBe(version);
  });

  it.each([
    [undefined, null],
    ['*', null],
    [' * ', null],
    [' "3" ', 3],
    ['"0"', 0],
    ['"03"', 0],
    ['"-1"', 0],
    ['"1.0"', 0],
    ['"1234567890"', 0],
    ['"abc"', 0],
    ['""', 0],
    ['W/"3"', 0],
  ])('%s asks for version %s', (header, version) => {
    expect(versionOfIfMatch(header)).toBe(version);
  });

  it.each(['', '3', '"3', '3"', '"3" "4"', '"3","4"', '*, "3"', 'w/"3"', '"é"', '"a\tb"'])(
    '%j cannot be read',
    (header) => {
      expect(() => versionOfIfMatch(header)).toThrow(DomainError);
      try {
        versionOfIfMatch(header);
      } catch (error) {
        expect(error).toMatchObject({ code: 'invalid-parameter', members: { errors: [{ parameter: 'If-Match' }] } });
      }
    },
  );
});
