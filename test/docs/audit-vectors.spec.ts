import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { askFirst, askSecond, type Said, type VerifierCase } from '../support/verifiers.js';

const ROOT = join(import.meta.dirname, '../..');

interface Vectors {
  base: string[];
  cases: (VerifierCase & Said)[];
}

describe('docs/audit-vectors.json', () => {
  const { base, cases } = JSON.parse(readFileSync(join(ROOT, 'docs/audit-vectors.json'), 'utf8')) as Vectors;

  /** Of what was said, what the case speaks of. */
  const pick = (one: Said, said: Said | undefined): Partial<Said> =>
    Object.fromEntries(
      (['verdict', 'code', 'index', 'line', 'late', 'breaks'] as const)
        .filter((name) => name in one)
        .map((name) => [name, said?.[name]]),
    );
  const expected = cases.map((one) => ({ name: one.name, ...pick(one, one) }));

  it('is what scripts/audit-vectors.mjs writes', async () => {
    const script = (await import(join(ROOT, 'scripts/audit-vectors/cases.mjs'))) as { vectors(): Vectors };
    expect({ base, cases }).toEqual(script.vectors());
  });

  it('are the ones whose values docs/audit-format.md shows', async () => {
    const script = (await import(join(ROOT, 'scripts/audit-vectors/values.mjs'))) as { valuesTable(): string };
    expect(readFileSync(join(ROOT, 'docs/audit-format.md'), 'utf8')).toContain(script.valuesTable());
  });

  it('has a case for every verdict of an export', () => {
    expect([...new Set(cases.map(({ code }) => code))].toSorted()).toEqual(
      [
        null,
        'BAD_CHECKPOINT',
        'BAD_SIGNATURE',
        'FORK',
        'GAP',
        'HASH_MISMATCH',
        'INCONSISTENT',
        'MALFORMED',
        'PREV_MISMATCH',
        'ROOT_MISMATCH',
        'SIZE_BELOW_CHECKPOINT',
        'SIZE_MISMATCH',
        'TIME_REVERSED',
        'UNKNOWN_FORMAT',
        'UNKNOWN_KEY',
        'UNPROVEN_TAIL',
      ].toSorted(),
    );
  });

  it('says what the verifier of the service says', async () => {
    const said = [];
    for (const one of cases) said.push({ name: one.name, ...pick(one, await askFirst(one, base)) });
    expect(said).toEqual(expected);
  });

  it.each([false, true])('says what the second verifier says, with whole numbers alone: %s', async (isPure) => {
    const said = await askSecond(cases, { base, isPure });
    expect(cases.map((one, at) => ({ name: one.name, ...pick(one, said[at]) }))).toEqual(expected);
  });
});
