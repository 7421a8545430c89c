import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, escapeIdentifier, type QueryResultRow } from 'pg';
import { bootstrapCluster } from '../../src/database/bootstrap.js';
import {
  discardEmbedded,
  embeddedBinaries,
  type EmbeddedMajor,
  rolePasswords,
  type RolePasswords,
  startEmbedded,
} from '../../src/database/embedded/index.js';
import { migrate } from '../../src/database/migrate.js';

const TEST_DIR = join(import.meta.dirname, '../../.waybill/test');
/** Databases on a server of somebody else's are left over when a run was killed; older than this they are removed. */
const FOREIGN_LEFTOVER_HOURS = 6;

interface TestServer {
  superuserUrl: string;
  passwords: RolePasswords;
  stop(): Promise<void>;
}

let undo: (() => Promise<void>) | undefined;

/** Starts (or reaches) the server, makes the template, and tells the workers through `WAYBILL_TEST_*`. */
export async function startTestServer(): Promise<void> {
  const stamp = Math.floor(Date.now() / 1000).toString(36);
  const prefix = `waybill_test_${stamp}_${randomBytes(4).toString('hex')}`;
  const foreign = process.env.TEST_DATABASE_URL;
  const server = foreign ? await foreignServer(foreign, prefix) : await ownServer();
  undo = server.stop;
  stopOnSignals();
  try {
    const template = `${prefix}_template`;
    const { ownerUrl } = await bootstrapCluster(server.superuserUrl, template, server.passwords);
    await migrate(ownerUrl);
    // Cloning needs a template that nobody is connected to, not even autovacuum.
    await query(server.superuserUrl, `ALTER DATABASE ${template} WITH ALLOW_CONNECTIONS false`);
    process.env.WAYBILL_TEST_SUPERUSER_URL = server.superuserUrl;
    process.env.WAYBILL_TEST_PASSWORDS = JSON.stringify(server.passwords);
    process.env.WAYBILL_TEST_PREFIX = prefix;
  } catch (error) {
    await stopTestServer(); // Jest calls no teardown after a failed setup
    throw error;
  }
}

export async function stopTestServer(): Promise<void> {
  const stop = undo;
  undo = undefined;
  await stop?.();
}

/** Ctrl-C ends Jest without its teardown. */
function stopOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      void stopTestServer().finally(() => process.kill(process.pid, signal));
    });
  }
}

async function ownServer(): Promise<TestServer> {
  await mkdir(TEST_DIR, { recursive: true });
  await discardDeadRuns();
  const dataDir = join(TEST_DIR, `run-${process.pid}-${randomBytes(4).toString('hex')}`);
  const lines: string[] = [];
  const log = (line: string): number => lines.push(line);
  const major = (process.env.TEST_POSTGRES ?? '18') as EmbeddedMajor;
  // Disposable: fsync off. A crash of the machine would lose these data, and nobody would miss them.
  const server = await startEmbedded({ dataDir, binaries: embeddedBinaries(major), log, disposable: true });
  const stop = async (): Promise<void> => {
    await server.stop();
    if (!(await discardEmbedded(dataDir, log))) throw new Error(`${dataDir} is still in use`);
  };
  return { superuserUrl: server.superuserUrl, passwords: await rolePasswords(dataDir), stop };
}

/** Servers of runs that were killed. Runs that are alive, of this checkout too, have a live user and stay. */
async function discardDeadRuns(): Promise<void> {
  const oneMinuteAgo = Date.now() - 60_000;
  for (const name of await readdir(TEST_DIR)) {
    const dataDir = join(TEST_DIR, name);
    const made = await stat(dataDir).catch(() => undefined);
    // A run that is just starting isn't a user of its server yet.
    if (!made || !name.startsWith('run-') || made.birthtimeMs > oneMinuteAgo) continue;
    await discardEmbedded(dataDir, () => undefined).catch(() => undefined);
  }
}

/**
 * The server at TEST_DATABASE_URL: give it one that is for tests only. Roles belong to the whole server, so their
 * passwords are set here; derived from the address, they are the same for all runs that share the server.
 */
async function foreignServer(superuserUrl: string, prefix: string): Promise<TestServer> {
  await dropDatabases(superuserUrl, (name) => ageInHours(name) > FOREIGN_LEFTOVER_HOURS);
  const passwordOf = (role: string): string => createHash('sha256').update(`${role}\n${superuserUrl}`).digest('hex');
  const passwords = { owner: passwordOf('owner'), app: passwordOf('app'), sealer: passwordOf('sealer') };
  const stop = (): Promise<void> => dropDatabases(superuserUrl, (name) => name.startsWith(prefix));
  return { superuserUrl, passwords, stop };
}

function ageInHours(database: string): number {
  const stamp = /^waybill_test_([0-9a-z]+)_/.exec(database)?.[1];
  return stamp === undefined ? 0 : (Date.now() / 1000 - Number.parseInt(stamp, 36)) / 3600;
}

async function dropDatabases(superuserUrl: string, which: (name: string) => boolean): Promise<void> {
  const names = await query<{ datname: string }>(superuserUrl, 'SELECT datname FROM pg_database');
  for (const { datname } of names.filter((row) => which(row.datname))) {
    await query(superuserUrl, `DROP DATABASE IF EXISTS ${escapeIdentifier(datname)} WITH (FORCE)`);
  }
}

async function query<Row extends QueryResultRow>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}
