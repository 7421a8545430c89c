import { describe, expect, it } from '@jest/globals';
import { measureUntil } from '../../test/support/measuring.js';
import { DomainError } from '../problems/index.js';
import { parseJsonBody } from './json-body.js';

/** Sixteen times the text takes 256 times as long where time grows with its square. */
const TIMES = 16;
const TOLERATED = TIMES * 5;

describe('parseJsonBody', () => {
  it.each<[string, (length: number) => string]>([
    ['a string', (length) => `"${'x'.repeat(length)}"`],
    ['escaped letters', (length) => `"${'\\u0041'.repeat(length / 6)}"`],
    ['backslashes', (length) => `"${'\\'.repeat(length)}"`],
    ['blanks', (length) => ' '.repeat(length)],
    ['line breaks', (length) => '\n'.repeat(length)],
    ['digits', (length) => '1'.repeat(length)],
    ['zeros behind the point', (length) => `1.${'0'.repeat(length)}`],
    ['zeros before the first digit', (length) => `0.${'0'.repeat(length)}1`],
    ['digits behind the point', (length) => `1.${'01'.repeat(length / 2)}`],
    ['an exponent', (length) => `1e${'9'.repeat(length)}`],
    ['numbers', (length) => `[${'1,'.repeat(length / 2)}1]`],
    ['arrays', (length) => `[${'[],'.repeat(length / 3)}1]`],
    ['members', (length) => `{${Array.from({ length: length / 13 }, (_, n) => `"k${n}":1`).join(',')}}`],
    [
      'members that are numbers',
      (length) => `{${Array.from({ length: length / 13 }, (_, n) => `"${n * 7919}":1`).join(',')}}`,
    ],
  ])('takes time in proportion to the text: %s', async (_, textOf) => {
    const long = 1_048_576;
    const [part, whole] = [textOf(long / TIMES), textOf(long)];
    const growth = () => leastTime(whole) / Math.max(leastTime(part), 0.5);
    expect(await measureUntil(TOLERATED, growth)).toBeLessThanOrEqual(TOLERATED);
  });
});

/** Milliseconds; the least of several, which is nearest to what it takes when nothing else runs. */
function leastTime(text: string): number {
  const bytes = Buffer.from(text);
  const taken = [1, 2, 3, 4, 5].map(() => {
    const start = performance.now();
    try {
      parseJsonBody(bytes);
    } catch (error) {
      expect(error).toBeInstanceOf(DomainError);
    }
    return performance.now() - start;
  });
  return Math.min(...taken);
}
