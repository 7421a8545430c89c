import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, type QueryResultRow } from 'pg';
import { bootstrapCluster } from '../../../src/database/bootstrap.js';
import type { RolePasswords } from '../../../src/database/embedded/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
let passwords: RolePasswords;

beforeAll(async () => {
  database = await createTestDatabase();
  passwords = {
    owner: passwordOf(database.ownerUrl),
    app: passwordOf(database.appUrl),
    sealer: passwordOf(database.sealerUrl),
  };
});

afterAll(() => database.drop());

function passwordOf(url: string): string {
  return new URL(url).password;
}

async function run<Row extends QueryResultRow>(url: string, ...statements: string[]): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    let rows: Row[] = [];
    for (const statement of statements) rows = (await client.query<Row>(statement)).rows;
    return rows;
  } finally {
    await client.end();
  }
}

describe('after the bootstrap script, in a database that was cloned from a template', () => {
  test('each role logs in as itself', async () => {
    for (const role of ['owner', 'app', 'sealer'] as const) {
      expect(await run(database[`${role}Url`], 'SELECT current_user AS role')).toEqual([{ role: `waybill_${role}` }]);
    }
  });

  test('no role has powers over the server or past row security', async () => {
    const mighty = `SELECT rolname FROM pg_roles WHERE rolname LIKE 'waybill\\_%'
      AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)`;
    expect(await run(database.superuserUrl, mighty)).toEqual([]);
  });

  test('the owner acts as waybill_audit after SET ROLE only', async () => {
    const schema = 'CREATE SCHEMA audit_probe AUTHORIZATION waybill_audit';
    const table = 'CREATE TABLE audit_probe.t ()';
    await run(database.ownerUrl, schema);
    await expect(run(database.ownerUrl, table)).rejects.toThrow('permission denied for schema audit_probe');
    await run(database.ownerUrl, 'SET ROLE waybill_audit', table);
    await expect(run(database.ownerUrl, 'SELECT FROM audit_probe.t')).rejects.toThrow('permission denied');
  });

  test.each(['appUrl', 'sealerUrl'] as const)('%s can become nobody else and make nothing', async (who) => {
    for (const role of ['waybill_owner', 'waybill_audit', 'pg_database_owner']) {
      await expect(run(database[who], `SET ROLE ${role}`)).rejects.toThrow('permission denied to set role');
    }
    await expect(run(database[who], 'CREATE TABLE public.t ()')).rejects.toThrow('permission denied');
    await expect(run(database[who], 'CREATE TEMP TABLE t ()')).rejects.toThrow('permission denied');
    await expect(run(database[who], 'CREATE SCHEMA s')).rejects.toThrow('permission denied');
  });

  test('others cannot even connect', async () => {
    const acl = `SELECT datacl::text AS rights FROM pg_database WHERE datname = current_database()`;
    const [row] = await run<{ rights: string }>(database.superuserUrl, acl);
    expect(row?.rights).not.toMatch(/[{,]=/); // an entry without a name is PUBLIC's
  });
});

describe('the bootstrap script', () => {
  test('may run again, and several times at once', async () => {
    const again = (): Promise<unknown> => bootstrapCluster(database.superuserUrl, database.name, passwords);
    const server = new URL(database.superuserUrl);
    server.pathname = '/postgres'; // from another database, where the script's lock isn't seen
    const elsewhere = (): Promise<unknown> => bootstrapCluster(server.href, database.name, passwords);
    await Promise.all([again(), elsewhere(), again(), elsewhere(), again(), elsewhere()]);
    expect(await run(database.appUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('makes a database that is missing, whatever its name', async () => {
    const name = `${database.name} "new"`;
    const urls = await bootstrapCluster(database.superuserUrl, name, passwords);
    expect(await run(urls.appUrl, 'SELECT current_database() AS name')).toEqual([{ name }]);
    await run(database.superuserUrl, `DROP DATABASE "${name.replaceAll('"', '""')}" WITH (FORCE)`);
  });
});
