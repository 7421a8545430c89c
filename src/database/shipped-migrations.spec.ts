import { describe, expect, it } from '@jest/globals';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = join(import.meta.dirname, '../../migrations');
const SHIPPED = join(import.meta.dirname, '../../test/fixtures/shipped-migrations.json');

/*
 * A database on which a migration ran never runs it again, so an edit would leave it with another schema than a new one.
 * What is recorded here may be on somebody's database; what isn't may still be changed.
 */
describe('migrations that were shipped', () => {
  it('stay as they were: mend one by adding another; UPDATE_RELEASE=1 records those that are new', () => {
    const current = hashes();
    const shipped = JSON.parse(readFileSync(SHIPPED, 'utf8')) as Record<string, string>;
    if (process.env.UPDATE_RELEASE === '1') {
      writeFileSync(SHIPPED, `${JSON.stringify({ ...current, ...shipped }, null, 2)}\n`);
    }
    const edited = Object.keys(shipped).filter((file) => current[file] !== shipped[file]);
    expect(edited).toEqual([]);
  });

  it('come before those that were not', () => {
    const shipped = Object.keys(JSON.parse(readFileSync(SHIPPED, 'utf8')) as object);
    expect(Object.keys(hashes()).slice(0, shipped.length)).toEqual(shipped);
  });
});

/** SHA-256 of each migration's text by its file's name, in order. Spaces don't count, so that a formatter may change them. */
function hashes(): Record<string, string> {
  const files = readdirSync(FOLDER).filter((name) => /^\d+-.*\.ts$/.test(name));
  return Object.fromEntries(files.toSorted().map((file) => [file, hashOf(readFileSync(join(FOLDER, file), 'utf8'))]));
}

function hashOf(text: string): string {
  return createHash('sha256').update(text.replaceAll(/\s+/g, '')).digest('hex');
}
