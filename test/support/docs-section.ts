import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const DOCS = join(import.meta.dirname, '../../docs');

/**
 * A part of a page that a test prints: between `<!-- name -->` and `<!-- /name -->`. With UPDATE_DOCS=1 it is written.
 *
 * @returns what the page says by now; the test compares it with what it found
 */
export async function docsSection(page: string, name: string, found: string): Promise<string> {
  const file = join(DOCS, page);
  const text = await readFile(file, 'utf8');
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [start, end] = [text.indexOf(open), text.indexOf(close)];
  if (start < 0 || end < start) throw new Error(`docs/${page} has no section ${open} … ${close}`);
  if (process.env.UPDATE_DOCS !== '1') return text.slice(start + open.length, end).trim();
  await writeFile(file, `${text.slice(0, start + open.length)}\n\n${found}\n\n${text.slice(end)}`);
  return found;
}
