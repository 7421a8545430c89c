import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
const BLOCK = /\[`([^`]+)`\]\([^)]+\)\n\n```\w+\n([\s\S]*?)\n```/g;

describe('docs/extending.md', () => {
  const text = readFileSync(join(ROOT, 'docs/extending.md'), 'utf8');
  const blocks = [...text.matchAll(BLOCK)].map(([, file = '', code = '']) => ({ file, code }));

  it('shows only what the example really says', () => {
    expect(blocks.length).toBeGreaterThan(8);
    for (const { file, code } of blocks) {
      expect(withoutIndent(readFileSync(join(ROOT, file), 'utf8'))).toContain(withoutIndent(code));
    }
  });

  it('shows no code that is in no file', () => {
    const fences = [...text.matchAll(/^```(?:ts|sql)$/gm)];
    expect(fences).toHaveLength(blocks.length);
  });
});

/** A part of a file stands farther left on the page. */
function withoutIndent(text: string): string {
  return text.replaceAll(/^ +/gm, '');
}
