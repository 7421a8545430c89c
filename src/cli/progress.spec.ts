import { describe, expect, it } from '@jest/globals';
import { Progress } from './progress.js';

describe('progress', () => {
  it('redraws one line on a terminal, within its width, and takes it away at the end', () => {
    const frames = show(true).split('\r\u001b[2K');
    expect(frames.length).toBeGreaterThan(100);
    expect(frames.every((frame) => frame.length < 70 && !frame.includes('\n'))).toBe(true);
    expect(frames[60]).toMatch(/^orders ▕█+.? +▏ \d+ of 1,000 {2}details/);
    expect(frames.at(-1)).toBe('');
  });

  it('writes a line now and then elsewhere, and the last one when all is done', () => {
    const lines = show(false).trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(10);
    expect(lines.at(-1)).toBe('orders: 1,000 of 1,000  details');
  });
});

/** What is written while a thousand things are done, one every 10 ms. */
function show(isTTY: boolean): string {
  let text = '';
  let now = 0;
  const output = { isTTY, columns: 70, write: (part: string) => (text += part) };
  const progress = new Progress('orders', 1000, output, () => now);
  for (let done = 1; done <= 1000; done += 1) {
    now += 10;
    progress.update(done, 'details');
  }
  progress.finish();
  return text;
}
