import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { driveHttp } from '../load/http.js';
import { authorization, createRequests } from '../load/orders.js';
import { drivePgbench } from '../load/pgbench.js';
import { makeSqlScripts } from '../load/sql-functions.js';
import { cpuEach } from '../report/row.js';
import { type BenchDatabase, BenchServer } from '../world/server.js';
import { findPgbench } from '../world/tools.js';
import { startArguments, startService } from '../world/service.js';
import { functionTimes } from './function-times.js';
import { countRoundTrips } from './round-trips.js';
import { allocationSummary, cpuSummary } from './v8-profiles.js';

const HELP = `Usage: npm run bench:profile -- [--seconds N]

Says where the time of POST /v1/orders goes: CPU of the service by package and function (node --cpu-prof), what it
allocates (--heap-prof), PostgreSQL's time by function (pg_stat_user_functions with track_functions = all, one client),
CPU of both for each request, and round trips to the database (a counting proxy between the two).
`;
const CONNECTIONS = 16;
const WARM_SECONDS = 3;
const MOST_PER_SECOND = 3_000;

export async function profileCreatePath(args: string[]): Promise<void> {
  if (args.includes('--help')) {
    process.stdout.write(HELP);
    return;
  }
  const seconds = Number(args[args.indexOf('--seconds') + 1] ?? 8) || 8;
  const server = await BenchServer.start((line) => console.error(line));
  try {
    const database = await server.createDatabase('bench_profile');
    await profileSql(server, database, seconds);
    await profileService(server, database, seconds);
    console.log(`\nround trips to PostgreSQL for one create, signed in: ${await countRoundTrips(database)}`);
  } finally {
    await server.dropDatabase('bench_profile');
    await server.stop();
  }
}

async function profileSql(server: BenchServer, database: BenchDatabase, seconds: number): Promise<void> {
  const { createInOneCall: script } = await makeSqlScripts(database);
  const load = { pgbench: findPgbench(), url: database.appUrl, script, clients: 1, postgres: server.postmaster };
  await drivePgbench({ ...load, seconds: WARM_SECONDS });
  const plain = await drivePgbench({ ...load, seconds });
  console.log(`PostgreSQL's CPU for one create in SQL, one client: ${plain.cpu.postgres.toFixed(0)} µs`);
  console.log(`\nPostgreSQL by function (one client, measuring included), µs a create:`);
  console.log(await functionTimes(database, () => drivePgbench({ ...load, seconds })));
}

async function profileService(server: BenchServer, database: BenchDatabase, seconds: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-profile-'));
  const profiles = ['--cpu-prof', '--heap-prof', '--cpu-prof-dir', folder, '--heap-prof-dir', folder];
  const headers = authorization(database.tenant.keys.operator);
  const drive = async (program: string[]) => {
    const service = await startService(database, { program });
    const load = {
      baseUrl: service.baseUrl,
      connections: CONNECTIONS,
      mayRepeat: false,
      service: [service.pid],
      postgres: server.postmaster,
    };
    const turn = (length: number) =>
      driveHttp({ ...load, seconds: length, requests: createRequests(length * MOST_PER_SECOND, headers) });
    await turn(WARM_SECONDS);
    const sample = await turn(seconds);
    await service.stop();
    return sample;
  };
  try {
    const sample = await drive(startArguments());
    const { service, postgres, load } = sample.cpu;
    console.log(
      `\nCPU µs a create over HTTP: service ${service.toFixed(0)}, PostgreSQL ${postgres.toFixed(0)}, together ` +
        `${cpuEach(sample).toFixed(0)} (load generator ${load.toFixed(0)}); ${sample.perSecond.toFixed(0)} a second`,
    );
    const profiled = await drive([...profiles, ...startArguments()]);
    console.log(`\nthe service's CPU by place (profiled: ${profiled.cpu.service.toFixed(0)} µs a create):`);
    console.log(await cpuSummary(folder, profiled.cpu.service));
    console.log('\nwhat the service allocates, by place (sampled; share of what was still alive at a sample):');
    console.log(await allocationSummary(folder));
  } finally {
    await rm(folder, { recursive: true });
  }
}
