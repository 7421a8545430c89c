import { parseArgs } from 'node:util';
import { makeDemoTenants } from '../../src/identity/index.js';
import { createTestDatabase } from '../support/database.js';
import { startTestServer, stopTestServer } from '../support/test-server.js';
import { measureClaimCost } from './claim-cost.js';
import { PLANTS } from './rounds/plants.js';
import { type RoundsReport, runRounds } from './rounds/run-rounds.js';
import { summaryOf } from './rounds/summary.js';
import { measureCreateCost } from './create-cost.js';
import { runInput } from './input/run-input.js';
import { runStorm } from './idempotency-storm.js';
import { runPaymentStorm } from './payment-storm.js';

const USAGE = `Usage: npm run faults -- [what] [options], on a PostgreSQL of its own

  rounds [--rounds 100] [--seed N]       (the default) sixteen clients a round, a fault at a named point in each,
         [--from N] [--plant NAME]       and a checker that names what broke. --from starts at a later round of the seed;
                                         --plant puts a bug in on purpose: ${PLANTS.map(({ name }) => `"${name}"`).join(', ')}
  chaos  [--minutes 10] [--seed N]       two services, sixteen clients, and every second something is killed, restarted
         [--from N]                      or paused: a service, a connection, PostgreSQL itself. Judged twice a minute
  storm  [--requests 10000] [--seed N]   requests with repeats, while service processes are killed
  payments [--payments 2000] [--seed N]  payments with a provider that fails, while service processes are killed
  input [--requests 10000] [--seed N]    requests to every operation, made from the API document, good and bad ones: none may
         [--from N]                      be answered 5xx or otherwise than documented. --from leaves out those before it
  claims [--rows 5000000]                what a claim costs with many old keys, against none
  cost                                   what a key costs: placing with and without one, and replaying
`;

const CHAOS_ROUND_MS = 30_000;

/** The long forms of what the tests run in short. */
async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      requests: { type: 'string' },
      payments: { type: 'string' },
      seed: { type: 'string' },
      rows: { type: 'string' },
      rounds: { type: 'string' },
      from: { type: 'string' },
      minutes: { type: 'string' },
      plant: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const [what = 'rounds'] = positionals;
  const seed = Number(values.seed ?? Date.now() % 1_000_000);
  const from = Number(values.from ?? 1);
  if (what === 'rounds') return rounds(Number(values.rounds ?? 100), seed, from, values.plant);
  if (what === 'chaos') return chaos(Number(values.minutes ?? 10), seed, from);
  if (what !== 'storm' && what !== 'payments' && what !== 'claims' && what !== 'cost' && what !== 'input') {
    console.log(USAGE);
    process.exitCode = 2;
    return;
  }
  await startTestServer();
  try {
    if (what === 'storm') await storm(Number(values.requests ?? 10_000), seed);
    else if (what === 'input') await input(Number(values.requests ?? 10_000), seed, Number(values.from ?? 0));
    else if (what === 'payments') await payments(Number(values.payments ?? 2000), seed);
    else if (what === 'claims') await claims(Number(values.rows ?? 5_000_000));
    else console.log(JSON.stringify(await measureCreateCost(), undefined, 2));
  } finally {
    await stopTestServer();
  }
}

async function rounds(count: number, seed: number, from: number, plantName: string | undefined): Promise<void> {
  const plant = PLANTS.find(({ name }) => name === plantName);
  if (plantName !== undefined && !plant) throw new Error(`There is no plant "${plantName}"; --help lists them.`);
  const patienceMs = plant ? 4_000 : undefined;
  const report = await runRounds({
    rounds: count,
    seed,
    from,
    plant,
    patienceMs,
    progress: (line) => console.log(line),
  });
  conclude(report, 'rounds');
}

async function chaos(minutes: number, seed: number, from: number): Promise<void> {
  const rounds = Math.max(1, Math.round((minutes * 60_000) / CHAOS_ROUND_MS));
  const progress = (line: string): void => console.log(line);
  conclude(await runRounds({ rounds, seed, from, chaosMs: CHAOS_ROUND_MS, progress }), 'chaos');
}

function conclude(report: RoundsReport, what: string): void {
  console.log(`\n${summaryOf(report)}`);
  const [first] = report.broken;
  if (!first) return;
  console.log(
    `Again: npm run faults -- ${what} --seed ${report.seed} --from ${first.round} ${what === 'chaos' ? '--minutes 0.5' : '--rounds 1'}`,
  );
  process.exitCode = 1;
}

async function storm(requests: number, seed: number): Promise<void> {
  tell(await runStorm({ ...(await target()), requests, seed }));
}

async function payments(count: number, seed: number): Promise<void> {
  tell(await runPaymentStorm({ ...(await target()), payments: count, seed }));
}

async function input(requests: number, seed: number, from: number): Promise<void> {
  console.log(`Seed ${seed}`);
  const { answers, faults } = await runInput({ requests, seed, from, progress: (line) => console.log(line) });
  console.table(answers);
  for (const fault of faults) console.log(`\n${fault}`);
  console.log(faults.length === 0 ? 'No fault.' : `\n${faults.length} faults.`);
  if (faults.length === 0) return;
  console.log(`Again, with what came before: npm run faults -- input --seed ${seed} --requests ${requests}`);
  process.exitCode = 1;
}

async function target() {
  const database = await createTestDatabase();
  const [tenant] = await makeDemoTenants(database.ownerUrl);
  return {
    databaseUrl: database.appUrl,
    superuserUrl: database.superuserUrl,
    apiKey: tenant?.keys.operator ?? '',
    progress: (line: string) => console.log(line),
  };
}

function tell(report: { faults: readonly string[] }): void {
  console.log(JSON.stringify(report, undefined, 2));
  console.log(report.faults.length === 0 ? 'No fault.' : `${report.faults.length} faults.`);
  process.exitCode = report.faults.length === 0 ? 0 : 1;
}

async function claims(rows: number): Promise<void> {
  const [empty, full] = [await createTestDatabase(), await createTestDatabase()];
  for (const { ownerUrl } of [empty, full]) await makeDemoTenants(ownerUrl);
  console.log(`Filling in ${rows} rows …`);
  console.log(JSON.stringify(await measureClaimCost(empty, full, rows), undefined, 2));
}

await main();
