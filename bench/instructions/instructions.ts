import { spawnSync } from 'node:child_process';
import { readFile, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { discardEmbedded } from '../../src/database/embedded/index.js';
import { BENCH_FOLDER } from '../world/folders.js';
import { BenchServer, query } from '../world/server.js';
import { countInstructions, type StoppedServer } from './count.js';

const HELP = `Usage: npm run bench:instructions -- [--record]

Counts the instructions that PostgreSQL executes for a create, a transition, a replay, a read and a list of 51 orders, and
compares them with bench/instructions/figures.json: a case that has become dearer by more than three percent fails. Needs
valgrind (Debian: apt-get install valgrind) and takes about a minute. What else the machine does makes no difference.

  --record   writes the figures of this run into figures.json, for a change that is worth what it costs
`;

const CASES = ['create', 'transition', 'replay', 'read', 'list'] as const;
type Figures = Record<(typeof CASES)[number], number>;

const FOLDER = join(BENCH_FOLDER, 'instructions');
const FIGURES = join(import.meta.dirname, 'figures.json');
/** Orders that are there before anything is counted: enough for the list, the transitions, and plans by index. */
const ORDERS = 1_500;
const TOLERANCE = 1.03;

/** @returns the exit code */
export async function benchInstructions(args: string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(HELP);
    return 0;
  }
  if (spawnSync('valgrind', ['--version']).status !== 0) {
    process.stderr.write('valgrind is missing: apt-get install valgrind, or what your system calls it.\n');
    return 1;
  }
  const server = await prepare();
  const nothing = await countInstructions(server, 'SELECT bench.nothing();');
  const counted: [string, number][] = [];
  for (const name of CASES) {
    const figure = (await countInstructions(server, `SELECT bench.${name}();`)) - nothing;
    process.stdout.write(`${name}: ${figure} thousand instructions\n`);
    counted.push([name, figure]);
  }
  const figures = Object.fromEntries(counted) as Figures;
  if (args.includes('--record')) {
    await writeFile(FIGURES, `${JSON.stringify(figures, undefined, 2)}\n`);
    return 0;
  }
  return compare(figures, JSON.parse(await readFile(FIGURES, 'utf8')) as Figures);
}

function compare(counted: Figures, recorded: Figures): number {
  const dearer = CASES.filter((name) => counted[name] > recorded[name] * TOLERANCE);
  for (const name of dearer) {
    const percent = ((counted[name] / recorded[name] - 1) * 100).toFixed(1);
    process.stdout.write(`${name} is ${percent} % dearer than the ${recorded[name]} thousand that are recorded.\n`);
  }
  if (dearer.length > 0) process.stdout.write('Make it cheaper, or say why it is worth it and run with --record.\n');
  return dearer.length > 0 ? 1 : 0;
}

/** A database with orders, on a server that is stopped. */
async function prepare(): Promise<StoppedServer> {
  await discardEmbedded(FOLDER, () => undefined);
  const server = await BenchServer.start((line) => process.stdout.write(`${line}\n`), FOLDER);
  try {
    const database = await server.createDatabase('bench_instructions');
    await query(database.superuserUrl, await readFile(join(import.meta.dirname, 'cases.sql'), 'utf8'));
    for (let placed = 0; placed < ORDERS; placed += 100)
      await query(database.appUrl, 'SELECT count(bench.create()) FROM generate_series(1, 100)');
    await query(database.superuserUrl, 'ANALYZE');
    const [row] = await query<{ data: string }>(
      database.superuserUrl,
      `SELECT current_setting('data_directory') AS data`,
    );
    const postgres = await readlink(`/proc/${server.postmaster}/exe`);
    return { postgres, data: row?.data ?? '', database: database.name };
  } finally {
    await server.stop();
  }
}
