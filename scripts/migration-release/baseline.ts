import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { releasedFolder } from '../../src/database/released-steps.js';
import { readSources } from './sources.js';

const FROZEN = join(import.meta.dirname, '../../test/fixtures/released-steps.json');
const FIRST_LINE =
  '-- Step 0001 of 2025-11-30T00:00:01.000Z: the schema from nothing, which is migrations/sql in its order.';

/**
 * Writes the first step from the sources as they are now. Returns the file's name.
 *
 * @throws Error when the step is frozen
 */
export function writeBaseline(): string {
  const file = join(releasedFolder(), '0001-baseline.sql');
  const frozen = JSON.parse(readFileSync(FROZEN, 'utf8')) as Record<string, string>;
  if (basename(file) in frozen) throw new Error(`${basename(file)} is frozen: give the release a name instead`);
  const parts = readSources().map(({ name, text }) => `\n-- migrations/sql/${name}\n\n${text.trim()}\n`);
  writeFileSync(file, `${FIRST_LINE}\n${parts.join('')}`);
  return file;
}
