import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { releasedFolder, releasedSteps } from './released-steps.js';

const FROZEN = join(import.meta.dirname, '../../test/fixtures/released-steps.json');

/*
 * A database on which a step ran never runs it again, so an edit would leave it with another schema than a new one.
 * What is recorded here may be on somebody's database; what isn't may still be changed.
 */
describe('the released steps', () => {
  it('stay as they were: mend one by adding another; UPDATE_RELEASE=1 freezes those that are new', () => {
    const frozen = JSON.parse(readFileSync(FROZEN, 'utf8')) as Record<string, string>;
    const current = hashes();
    if (process.env.UPDATE_RELEASE === '1')
      writeFileSync(FROZEN, `${JSON.stringify({ ...current, ...frozen }, null, 2)}\n`);
    expect(Object.keys(frozen).filter((file) => current[file] !== frozen[file])).toEqual([]);
  });

  it('are numbered without a gap, and sort like their times, so that they run in the order of their numbers', () => {
    const names = releasedSteps().map(({ name }) => name);
    expect(names.map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_name, at) => at + 1));
    const times = names.map((name) => Number(name.slice(-13)));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(new Set(times).size).toBe(times.length);
  });

  it('have nothing left that a person must fill in', () => {
    const texts = readdirSync(releasedFolder()).map((file) => readFileSync(join(releasedFolder(), file), 'utf8'));
    expect(texts.filter((text) => text.includes('FILL IN'))).toEqual([]);
  });
});

describe('a folder of steps', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'waybill-steps-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (file: string, text: string): void => writeFileSync(join(folder, file), text);

  it('is refused when a step can’t be taken back or doesn’t say when it was made', () => {
    write('0001-first.sql', '-- Step 0001 of 2026-01-31T10:00:00.000Z\n');
    expect(() => releasedSteps(folder)).toThrow('0001-first.down.sql is missing');
    write('0001-first.down.sql', '');
    expect(releasedSteps(folder).map(({ name }) => name)).toEqual(['0001-first-1769853600000']);
    write('0002-second.sql', 'SELECT 1;\n');
    write('0002-second.down.sql', '');
    expect(() => releasedSteps(folder)).toThrow("The first line of 0002-second.sql doesn't say when it was made");
  });
});

/** SHA-256 of each file, in order. */
function hashes(): Record<string, string> {
  const files = readdirSync(releasedFolder()).filter((name) => name.endsWith('.sql'));
  return Object.fromEntries(
    files.toSorted().map((file) => [
      file,
      createHash('sha256')
        .update(readFileSync(join(releasedFolder(), file)))
        .digest('hex'),
    ]),
  );
}
