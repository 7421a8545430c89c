import { describe, expect, test } from '@jest/globals';
import { parseScript } from './psql-script.js';

describe('a psql script', () => {
  test('is cut into statements, queries whose rows are statements, and connections, each in its section', () => {
    const source = [
      '\\set ON_ERROR_STOP on',
      '-- @section one',
      '-- a comment',
      'SELECT 1;',
      "SELECT 'CREATE ROLE r'",
      ' WHERE true \\gexec',
      '-- @section two',
      '\\connect :"database"',
      'DO $$',
      'BEGIN PERFORM 1; -- not the end;',
      'END;',
      '$$;',
    ].join('\n');
    expect(parseScript(source, { database: 'way"bill' })).toEqual([
      { section: 'one', kind: 'run', text: 'SELECT 1;' },
      { section: 'one', kind: 'gexec', text: "SELECT 'CREATE ROLE r'\n WHERE true" },
      { section: 'two', kind: 'connect', text: 'way"bill' },
      { section: 'two', kind: 'run', text: 'DO $$\nBEGIN PERFORM 1; -- not the end;\nEND;\n$$;' },
    ]);
  });

  test('gets its variables quoted as literals and as identifiers, and casts are no variables', () => {
    const [step] = parseScript(`SELECT :'word'::text AS :"word";`, { word: `it's "so"` });
    expect(step?.text).toBe(`SELECT 'it''s "so"'::text AS "it's ""so""";`);
  });

  test.each([
    ["SELECT :'missing';", 'needs a value for missing'],
    ['\\copy t from x', '\\copy is not understood'],
  ])('is refused when it says %j', (source, message) => {
    expect(() => parseScript(source, {})).toThrow(message);
  });
});
