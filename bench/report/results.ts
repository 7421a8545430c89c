import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BenchOptions } from '../options.js';
import { RESULTS_FOLDER } from '../world/folders.js';
import type { MachineFacts } from '../world/machine.js';
import { plot } from './plot.js';
import { isMet, median, type Row } from './row.js';

export interface Results {
  at: string;
  machine: MachineFacts;
  postgres: Record<string, string>;
  options: BenchOptions;
  rows: Row[];
}

/** Writes JSON and SVG under the time's name and as `latest`. Returns the files. */
export async function writeResults(results: Results): Promise<string[]> {
  await mkdir(RESULTS_FOLDER, { recursive: true });
  const rows = results.rows.map((row) => ({ ...row, median: median(row.figures), met: isMet(row) }));
  const json = `${JSON.stringify({ ...results, rows }, null, 2)}\n`;
  const svg = plot(
    results.rows,
    `${results.at}, ${results.machine.cores} cores, PostgreSQL ${results.postgres.server_version}`,
  );
  const stamp = results.at.replaceAll(':', '-').replace(/\.\d+Z$/, '');
  const files = [stamp, 'latest'].flatMap((name) => [
    { file: join(RESULTS_FOLDER, `${name}.json`), content: json },
    { file: join(RESULTS_FOLDER, `${name}.svg`), content: svg },
  ]);
  for (const { file, content } of files) await writeFile(file, content);
  return files.map(({ file }) => file);
}
