/*
 * `npm run test:e2e`: the black-box suite against any running service. It knows nothing but an address and a key.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = dirname(dirname(import.meta.dirname));
const HELP = `Usage: npm run test:e2e -- [--base-url URL] [--api-key KEY] [--reports FOLDER] [Jest's options and path filters]

Tests a running service from outside. Without address and key it takes those of the demo tenant's operator from demo.json,
which "npm start" writes (in .waybill, or WAYBILL_DATA_DIR). The key needs the role operator or admin.

  npm run test:e2e                                             the service that "npm start" serves
  npm run test:e2e -- --base-url https://… --api-key wb_1_…    any other
  npm run test:e2e -- placing                                  only files whose path holds "placing"
  npm run test:e2e -- -t "double click"                        tests by name

Any number of runs may go on at once, and on a database that is in use: a run looks only at what it placed itself. Orders can't
be deleted; a run cancels what it placed as far as the workflow allows, and says what stays.
Reports: reports/e2e.xml (JUnit) and reports/e2e.md. See docs/testing.md for how to add cases.
`;

const { values, tokens } = parseArgs({
  strict: false,
  allowPositionals: true,
  tokens: true,
  options: {
    'base-url': { type: 'string' },
    'api-key': { type: 'string' },
    reports: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
const OWN = new Set(['base-url', 'api-key', 'reports', 'help']);

if (values.help) process.stdout.write(HELP);
else process.exitCode = await run();

async function run() {
  const target = findTarget();
  if (typeof target === 'string') return fail(target);
  const fault = await findFault(target);
  if (fault !== null) return fail(fault);
  process.stdout.write(`Testing ${target.baseUrl}\n`);
  const jest = [
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js'),
    '--config',
    join(ROOT, 'test', 'e2e', 'jest.config.js'),
    ...jestOptions(),
  ];
  const reports = values.reports ?? join(ROOT, 'reports');
  const { status } = spawnSync(process.execPath, jest, {
    cwd: ROOT,
    stdio: 'inherit',
    env: {
      ...process.env,
      WAYBILL_E2E_BASE_URL: target.baseUrl,
      WAYBILL_E2E_API_KEY: target.apiKey,
      WAYBILL_E2E_REPORTS: reports,
    },
  });
  process.stdout.write(`Reports: ${join(reports, 'e2e.xml')} and e2e.md\n`);
  return status ?? 1;
}

/** Everything that isn't ours, in its order: `-t name` are two words. */
function jestOptions() {
  const ours = tokens.filter(({ kind, name }) => kind === 'option' && OWN.has(name));
  const skipped = new Set(
    ours.flatMap(({ index, inlineValue, value }) => [
      index,
      ...(inlineValue || value === undefined ? [] : [index + 1]),
    ]),
  );
  return process.argv.slice(2).filter((_word, at) => !skipped.has(at));
}

function findTarget() {
  if (values['base-url'] && values['api-key']) return { baseUrl: trim(values['base-url']), apiKey: values['api-key'] };
  const file = join(process.env.WAYBILL_DATA_DIR ?? join(ROOT, '.waybill'), 'demo.json');
  if (!existsSync(file))
    return `There is no ${file}: start the service with "npm start", or give --base-url and --api-key.`;
  const demo = JSON.parse(readFileSync(file, 'utf8'));
  return {
    baseUrl: trim(values['base-url'] ?? demo.baseUrl),
    apiKey: values['api-key'] ?? demo.tenants[0].keys.operator,
  };
}

/** One sentence now is better than a hundred failed tests. */
async function findFault({ baseUrl, apiKey }) {
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer = await fetch(`${baseUrl}/v1/orders?limit=1`, { headers }).catch((error) => error);
  if (answer instanceof Error)
    return `${baseUrl} can't be reached (${answer.cause?.code ?? answer.message}). Is it running?`;
  if (answer.status === 200) return null;
  return `${baseUrl} answers ${answer.status} to GET /v1/orders: ${(await answer.text()).slice(0, 300)}`;
}

function trim(url) {
  return url.replace(/\/+$/, '');
}

function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  return 1;
}
