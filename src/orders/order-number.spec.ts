import { expect, it } from '@jest/globals';
import { drawOrderNumber } from './order-number.js';

it('an order number has eight characters that can be read out loud, in two groups', () => {
  for (let i = 0; i < 1_000; i += 1) expect(drawOrderNumber()).toMatch(/^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$/);
});

it('order numbers use every character about equally often, and do not repeat', () => {
  const numbers = Array.from({ length: 4_000 }, drawOrderNumber);
  expect(new Set(numbers).size).toBe(numbers.length);
  const counts = new Map<string, number>();
  for (const character of numbers.join('').replaceAll('-', '')) counts.set(character, (counts.get(character) ?? 0) + 1);
  expect(counts.size).toBe(32);
  // 1,000 expected of each; the standard deviation is 31.
  for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(220);
});
