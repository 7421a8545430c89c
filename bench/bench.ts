import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { discardEmbedded } from '../src/database/embedded/index.js';
import { against } from './against.js';
import { measures } from './measures/index.js';
import type { Bench } from './measures/measure.js';
import { HELP, readOptions } from './options.js';
import { Progress } from './report/progress.js';
import { type Results, writeResults } from './report/results.js';
import { isMet, type Row } from './report/row.js';
import { detailList, markdownTable } from './report/table.js';
import { soak } from './soak.js';
import { BENCH_FOLDER, ROOT } from './world/folders.js';
import { machineFacts } from './world/machine.js';
import { BenchServer } from './world/server.js';
import { findPgbench } from './world/tools.js';

/** Runs the benchmark. @returns the exit code: 0 when everything ran, whether or not goals were met */
export async function runBench(args: string[]): Promise<number> {
  const options = readOptions(args);
  const names = measures.map(({ name }) => name);
  if (options.help) {
    process.stdout.write(HELP.replace('MEASURES', names.join(', ')));
    return 0;
  }
  const unknown = options.only.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`There is no measure ${unknown}; there are ${names.join(', ')}`);
  if (!existsSync(join(ROOT, 'dist/src/main.js'))) throw new Error('The service is not built: npm run build');

  const progress = new Progress();
  if (options.fresh) await discardEmbedded(join(BENCH_FOLDER, 'pg'), () => undefined);
  const pgbench = findPgbench();
  const machine = machineFacts(pgbench);
  progress.begin('starting PostgreSQL');
  const server = await BenchServer.start((line) => progress.say(line));
  const bench: Bench = { options, server, pgbench, say: (text) => progress.say(text) };
  const stopOnSignal = (): void => void server.stop().finally(() => process.exit(130));
  process.once('SIGINT', stopOnSignal).once('SIGTERM', stopOnSignal);
  try {
    if (options.soak > 0) return await soak(bench);
    const chosen = measures.filter(({ name }) => options.only.length === 0 || options.only.includes(name));
    const results: Results = {
      at: new Date().toISOString(),
      machine,
      postgres: await server.settings(),
      options,
      rows: [],
    };
    const { rows } = results;
    let files: string[] = [];
    for (const measure of options.against ? [against] : chosen) {
      progress.begin(measure.name);
      rows.push(...(await measure.run(bench)));
      // After each one: a long run that breaks off keeps what it has measured.
      files = await writeResults(results);
    }
    progress.done();
    report(rows, [machineLine(results), ...files.map((file) => relative(ROOT, file))]);
    return 0;
  } finally {
    await server.stop();
    if (options.quick) await rm(join(BENCH_FOLDER, 'service'), { recursive: true, force: true });
  }
}

function machineLine({ machine, postgres }: { machine: object; postgres: object }): string {
  return Object.entries({ ...machine, ...postgres })
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
}

function report(rows: Row[], facts: string[]): void {
  const missed = rows.filter((row) => isMet(row) === false).length;
  const lines = [markdownTable(rows), '', 'Behind the figures:', detailList(rows), '', ...facts];
  process.stdout.write(`\n${lines.join('\n')}\n${rows.length} rows, ${missed} goals missed\n`);
}
