import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isBlank, isReference } from '../../../src/common/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { rows } from '../../support/sql.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** Code points that PostgreSQL has characters for. */
const POINTS = `SELECT i FROM generate_series(1, 1114111) AS i WHERE i NOT BETWEEN 55296 AND 57343`;

/** Code points of which SQL says yes, as the app role. */
async function pointsOf(condition: string): Promise<number[]> {
  const found = await rows<{ points: number[] }>(
    database.appUrl,
    `SELECT coalesce(array_agg(i ORDER BY i), '{}') AS points FROM (${POINTS}) p WHERE ${condition}`,
  );
  return found[0]?.points ?? [];
}

function pointsWhere(condition: (character: string) => boolean): number[] {
  return Array.from({ length: 0x10ffff }, (_, index) => index + 1).filter(
    (point) => (point < 0xd800 || point > 0xdfff) && condition(String.fromCodePoint(point)),
  );
}

describe('SQL and the service', () => {
  it('call the same characters blank, over all of Unicode', async () => {
    expect(await pointsOf('waybill.is_blank(chr(i))')).toEqual(pointsWhere(isBlank));
  });

  it('refuse the same characters within a reference, by what is blank and what stands next to that', async () => {
    const near = pointsWhere(isBlank).flatMap((point) => [point - 1, point, point + 1]);
    const points = [...new Set(near)].filter((point) => point > 0 && (point < 0xd800 || point > 0xdfff));
    const answers = await rows<{ point: number; fits: boolean }>(
      database.appUrl,
      `SELECT i AS point, waybill.is_reference('a' || chr(i)) AS fits FROM unnest($1::int[]) AS i`,
      [points],
    );
    const here = points.map((point) => ({ point, fits: isReference(`a${String.fromCodePoint(point)}`) }));
    expect(answers).toEqual(here);
  });

  const TEXTS = [
    '',
    ' ',
    '.',
    '..',
    '...',
    'a',
    'a ',
    ' a',
    'a b',
    'a/b',
    'Müller',
    'Mu\u0308ller',
    'a\u200bb',
    'a\u00a0b',
    '한',
    '\u1112\u1161\u11ab',
    '\u212b',
  ];
  it.each(TEXTS)('say the same of %j', async (text) => {
    const [answer] = await rows<{ blank: boolean; reference: boolean }>(
      database.appUrl,
      'SELECT waybill.is_blank($1) AS blank, waybill.is_reference($1) AS reference',
      [text],
    );
    expect(answer).toEqual({ blank: isBlank(text), reference: isReference(text) });
  });
});

describe('domains, whose short cuts spare the call,', () => {
  const takes = async (domain: string, text: string): Promise<boolean> => {
    try {
      await rows(database.appUrl, `SELECT $1::waybill.${domain}`, [text]);
      return true;
    } catch {
      return false;
    }
  };

  it.each(['reason', 'sku', 'item_name'])('take the same as waybill.is_blank leaves: %s', async (domain) => {
    for (const text of ['a', ' a', '~', '!', 'é', '\u00a0a'])
      expect([text, await takes(domain, text)]).toEqual([text, true]);
    for (const text of ['', ' ', '\t', '\n', '\u00a0', '\u200b', '\u007f', '\u{e0001}'])
      expect([text, await takes(domain, text)]).toEqual([text, false]);
  });

  it('take the same as waybill.is_reference: reference', async () => {
    for (const text of [
      '',
      ' ',
      '.',
      '..',
      '...',
      'a',
      'a ',
      ' a',
      'a b',
      'Müller',
      'Mu\u0308ller',
      'a\u200b',
      'a\t',
      '\u00a0a',
    ])
      expect([text, await takes('reference', text)]).toEqual([text, isReference(text)]);
  });
});
