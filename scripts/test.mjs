/*
 * What `npm test` runs: Jest on PostgreSQL 18, then the tests that compare durations one by one, then what is SQL once
 * more on 15, and one line at the end that any CI can read: `N passed, N failed`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const HELP = `Usage: npm test -- [--both] [--coverage] [Jest's options and path filters]

Runs everything on PostgreSQL 18, and what is SQL again on 15: test/integration/database, the files named *.sql.spec.ts,
and api-examples, which sends every kind of request once. The last line is "N passed, N failed"; the exit code is 0 only
when tests ran and all of them passed.

  npm test                              everything
  npm test -- orders                    files whose path holds "orders", on PostgreSQL 18 only
  npm test -- --both orders             the same on 18 and 15
  npm test -- --both                    all integration tests on both
  npm test -- -t "two at once"          tests by name
  npm test -- --coverage                also measures coverage (on 18)
  npm test -- --help                    this text

TEST_DATABASE_URL=postgres://superuser:…@host/postgres tests on that server instead (once; one that is for tests only).
`;

const ROOT = dirname(import.meta.dirname);
/** Which integration tests run on PostgreSQL 15 as well; see the help. */
const SQL = ['test/integration/database/', 'test/integration/api-examples', String.raw`\.sql\.spec\.ts$`];
let reports;
let interrupted = false;

/** Runs Jest once. Returns its counts; whatever went wrong apart from tests counts as failed, too. */
async function runJest(title, projects, options, postgres) {
  console.log(`\n── ${title}`);
  const report = join(reports, `${projects.join('-')}-${postgres}.json`);
  const all = ['--json', `--outputFile=${report}`, '--passWithNoTests', ...options];
  const code = await start(jest(projects, all), { ...process.env, TEST_POSTGRES: postgres });
  return readReport(report, code);
}

/** Node's arguments to run Jest. */
function jest(projects, options) {
  return [
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js'),
    ...options,
    // Last, since it takes every word that follows as a project's name.
    ...(namesProjects(options) ? [] : ['--selectProjects', ...projects]),
  ];
}

function namesProjects(options) {
  return options.some((option) => option.startsWith('--selectProjects'));
}

function hasFiles(projects, options) {
  const { stdout } = spawnSync(process.execPath, jest(projects, ['--listTests', ...options]), { cwd: ROOT });
  return stdout.includes('.spec.ts');
}

function start(options, env) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, options, { cwd: ROOT, stdio: 'inherit', env });
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? code));
  });
}

function readReport(report, code) {
  const found = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : {};
  const passed = found.numPassedTests ?? 0;
  const broken = found.numRuntimeErrorTestSuites ?? 0;
  if (broken > 0) console.log(`${broken} test file(s) could not be run; each counts as one failed.`);
  let failed = (found.numFailedTests ?? 0) + broken;
  if (code !== 0 && failed === 0) {
    console.log(`Jest ended with ${code} though no test failed (its set-up, tear-down or a threshold did).`);
    failed = 1;
  }
  return { passed, failed, skipped: (found.numPendingTests ?? 0) + (found.numTodoTests ?? 0) };
}

/** What the tests and all processes that they started took, as Linux counts it; undefined elsewhere. */
function cpuMinutes() {
  if (!existsSync('/proc/self/stat')) return undefined;
  // After the name, which may hold anything in parentheses: user and system time of children, in hundredths of a second.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 6000;
}

async function main(options) {
  const both = options.includes('--both');
  const rest = options.filter((option) => option !== '--both');
  const everything = rest.every((option) => option === '--coverage');
  const external = Boolean(process.env.TEST_DATABASE_URL);
  const where = external ? 'the server at TEST_DATABASE_URL' : 'PostgreSQL 18';

  const uncovered = rest.filter((option) => option !== '--coverage');
  const projects = ['unit', 'integration', 'system'];
  const runs = [await runJest(`unit, integration and system tests on ${where}`, projects, rest, '18')];
  if (!interrupted && !namesProjects(uncovered) && hasFiles(['timing'], uncovered)) {
    const alone = ['--runInBand', ...uncovered];
    runs.push(await runJest(`tests that compare durations, one by one, on ${where}`, ['timing'], alone, '18'));
  }
  if (!external && !interrupted && (both || everything)) {
    const again = both ? uncovered : SQL;
    runs.push(
      await runJest(`${both ? 'integration tests' : 'what is SQL'} on PostgreSQL 15`, ['integration'], again, '15'),
    );
  }
  const sum = (name) => runs.reduce((total, run) => total + run[name], 0);
  const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')];

  console.log('');
  if (skipped > 0) console.log(`${skipped} skipped`);
  if (passed + failed === 0) console.log('No test ran.');
  if (interrupted) console.log('Interrupted.');
  const minutes = cpuMinutes();
  if (minutes !== undefined) console.log(`${minutes.toFixed(1)} CPU minutes`);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 || passed === 0 || interrupted ? 1 : 0;
}

const options = process.argv.slice(2);
if (options.includes('--help') || options.includes('-h')) {
  console.log(HELP.trimEnd());
} else {
  // Ctrl-C reaches Jest as well, which cleans up; wait for it.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => (interrupted = true));
  reports = mkdtempSync(join(tmpdir(), 'waybill-test-'));
  try {
    await main(options);
  } finally {
    rmSync(reports, { recursive: true, force: true });
  }
}
