import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { databaseUrl, grantDatabaseRights, roleUrls } from '../../src/database/bootstrap.js';
import type { RolePasswords } from '../../src/database/embedded/index.js';

/** A migrated database for one suite, and its addresses by role. */
export interface TestDatabase {
  name: string;
  appUrl: string;
  ownerUrl: string;
  sealerUrl: string;
  superuserUrl: string;
  /** Closes what is still connected, and removes the database. */
  drop(): Promise<void>;
}

/** Clones the run's template database: call it in `beforeAll`, and `drop` in `afterAll`. Takes about 50 ms. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = setting('WAYBILL_TEST_SUPERUSER_URL');
  const prefix = setting('WAYBILL_TEST_PREFIX');
  const passwords = JSON.parse(setting('WAYBILL_TEST_PASSWORDS')) as RolePasswords;
  const name = `${prefix}_${randomBytes(4).toString('hex')}`;
  await run(server, `CREATE DATABASE ${name} TEMPLATE ${prefix}_template OWNER waybill_owner`);
  await grantDatabaseRights(server, name);
  return {
    name,
    ...roleUrls(server, name, passwords),
    superuserUrl: databaseUrl(server, name).href,
    drop: () => run(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

/** A copy of a database as it is now; whoever is connected to it is thrown out, and connects again. */
export async function copyDatabase(source: TestDatabase): Promise<TestDatabase> {
  const server = setting('WAYBILL_TEST_SUPERUSER_URL');
  const passwords = JSON.parse(setting('WAYBILL_TEST_PASSWORDS')) as RolePasswords;
  const name = `${source.name}_${randomBytes(4).toString('hex')}`;
  await run(server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${source.name}'`);
  await run(server, `CREATE DATABASE ${name} TEMPLATE ${source.name} OWNER waybill_owner STRATEGY file_copy`);
  await grantDatabaseRights(server, name);
  return {
    name,
    ...roleUrls(server, name, passwords),
    superuserUrl: databaseUrl(server, name).href,
    drop: () => run(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: only the Jest project "integration" has a database`);
  return value;
}

async function run(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
