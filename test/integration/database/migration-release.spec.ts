import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { dependentsOf } from '../../../scripts/migration-release/dependents.js';
import { differenceBetween } from '../../../scripts/migration-release/difference.js';
import { MARK, statementsOf } from '../../../scripts/migration-release/statements.js';
import { readSchema } from '../../../src/database/schema/read-schema.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { schemaText } from '../../support/schema.js';

const PARCELS = `
  CREATE DOMAIN waybill.parcel_code AS text COLLATE "C" CONSTRAINT parcel_code_length CHECK (length(VALUE) < 9);
  CREATE TABLE waybill.parcels (
    tenant_id bigint NOT NULL, id uuid NOT NULL, code waybill.parcel_code NOT NULL, weight int GENERATED ALWAYS AS (length(code)) STORED,
    CONSTRAINT parcels_code_key UNIQUE (tenant_id, code));
  CREATE INDEX parcels_weight_idx ON waybill.parcels (tenant_id, weight);
  ALTER TABLE waybill.parcels ADD CONSTRAINT parcels_pkey PRIMARY KEY (tenant_id, id);
  ALTER TABLE waybill.parcels SET (fillfactor = 80);
  ALTER TABLE waybill.parcels ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  CREATE POLICY parcels_tenant ON waybill.parcels USING (tenant_id = 1);
  CREATE VIEW waybill.parcel_codes WITH (security_invoker = true) AS SELECT p.tenant_id, p.code FROM waybill.parcels p;
  CREATE FUNCTION waybill.list_parcels(p_tenant bigint) RETURNS SETOF waybill.parcel_codes LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS 'SELECT c.* FROM waybill.parcel_codes c WHERE c.tenant_id = p_tenant';
  CREATE FUNCTION waybill.guard_parcel() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NEW; END';
  CREATE TRIGGER parcels_10_guard BEFORE UPDATE ON waybill.parcels FOR EACH ROW EXECUTE FUNCTION waybill.guard_parcel();
  ALTER TABLE waybill.parcels ENABLE ALWAYS TRIGGER parcels_10_guard;
  COMMENT ON TRIGGER parcels_10_guard ON waybill.parcels IS 'guards';
  COMMENT ON TABLE waybill.parcels IS 'what is under way';
  COMMENT ON COLUMN waybill.parcels.code IS 'on its label';
  COMMENT ON FUNCTION waybill.list_parcels IS 'all of a tenant';
  GRANT SELECT ON waybill.parcels, waybill.parcel_codes TO waybill_app;
  GRANT UPDATE (code) ON waybill.parcels TO waybill_app;
  GRANT EXECUTE ON FUNCTION waybill.list_parcels TO waybill_app;`;

const CHANGES: [what: string, before: string, change: string][] = [
  ['tables, functions and all that is theirs', '', PARCELS],
  [
    'the body of a function',
    PARCELS,
    `CREATE OR REPLACE FUNCTION waybill.guard_parcel() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
       AS 'BEGIN NEW.code := upper(NEW.code); RETURN NEW; END'`,
  ],
  [
    'what a function takes, so that it is another one',
    PARCELS,
    `DROP FUNCTION waybill.list_parcels; CREATE FUNCTION waybill.list_parcels(p_tenant bigint, p_limit int DEFAULT 10)
       RETURNS SETOF waybill.parcel_codes LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
       AS 'SELECT c.* FROM waybill.parcel_codes c WHERE c.tenant_id = p_tenant LIMIT p_limit'`,
  ],
  [
    'what an argument is called',
    PARCELS,
    `DROP FUNCTION waybill.list_parcels; CREATE FUNCTION waybill.list_parcels(p_of bigint) RETURNS SETOF waybill.parcel_codes
       LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS 'SELECT c.* FROM waybill.parcel_codes c WHERE c.tenant_id = p_of';
     GRANT EXECUTE ON FUNCTION waybill.list_parcels TO waybill_sealer`,
  ],
  [
    'the columns of a view that a function returns, which doesn’t change itself',
    PARCELS,
    `ALTER VIEW waybill.parcel_codes RENAME COLUMN code TO label`,
  ],
  [
    'a function that a trigger calls',
    PARCELS,
    'DROP TRIGGER parcels_10_guard ON waybill.parcels; DROP FUNCTION waybill.guard_parcel',
  ],
  ['when a trigger fires', PARCELS, 'ALTER TABLE waybill.parcels ENABLE TRIGGER parcels_10_guard'],
  [
    'what a trigger fires on, and nothing of its comment',
    PARCELS,
    `CREATE OR REPLACE TRIGGER parcels_10_guard BEFORE INSERT ON waybill.parcels FOR EACH ROW EXECUTE FUNCTION waybill.guard_parcel()`,
  ],
  ['a policy', PARCELS, 'ALTER POLICY parcels_tenant ON waybill.parcels USING (tenant_id = 2)'],
  ['row security', PARCELS, 'ALTER TABLE waybill.parcels NO FORCE ROW LEVEL SECURITY'],
  [
    'rights',
    PARCELS,
    'REVOKE SELECT ON waybill.parcels FROM waybill_app; GRANT SELECT (id) ON waybill.parcels TO waybill_sealer',
  ],
  [
    'comments',
    PARCELS,
    `COMMENT ON COLUMN waybill.parcels.code IS NULL; COMMENT ON FUNCTION waybill.guard_parcel IS 'guards'`,
  ],
  [
    'an index',
    PARCELS,
    'DROP INDEX waybill.parcels_weight_idx; CREATE INDEX parcels_weight_idx ON waybill.parcels (tenant_id, weight, id)',
  ],
  ['the room on a page', PARCELS, 'ALTER TABLE waybill.parcels SET (fillfactor = 70)'],
  [
    'what holds for a domain',
    PARCELS,
    `ALTER DOMAIN waybill.parcel_code DROP CONSTRAINT parcel_code_length;
     ALTER DOMAIN waybill.parcel_code ADD CONSTRAINT parcel_code_filled CHECK (VALUE <> '')`,
  ],
  [
    'a table that goes, with all that is its',
    PARCELS,
    'DROP TABLE waybill.parcels CASCADE; DROP FUNCTION waybill.guard_parcel',
  ],
  [
    'a machine and its transitions',
    PARCELS,
    `INSERT INTO waybill.machines (machine, entity_table, initial_state) SELECT 'parcel', 'waybill.parcels', 'packed';
     INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles) VALUES ('parcel', 'packed', 'sent', '{operator}')`,
  ],
  [
    'what belongs to waybill_audit',
    PARCELS,
    `SET LOCAL ROLE waybill_audit; CREATE FUNCTION audit.parcels() RETURNS int LANGUAGE sql SET search_path = pg_catalog, pg_temp AS 'SELECT 1';
     GRANT EXECUTE ON FUNCTION audit.parcels TO waybill_owner; RESET ROLE`,
  ],
  [
    'a schema',
    PARCELS,
    'CREATE SCHEMA carrier; CREATE TABLE carrier.labels (id int); GRANT USAGE ON SCHEMA carrier TO waybill_app',
  ],
];

describe('the command that writes releases', () => {
  let database: TestDatabase;
  let client: Client;
  beforeAll(async () => {
    database = await createTestDatabase();
    client = new Client({ connectionString: database.ownerUrl });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });
  beforeEach(() => client.query('BEGIN'));
  afterEach(() => client.query('ROLLBACK'));

  /** The statements between the schema as it is and what these changes make of it, there and back; nothing is changed. */
  async function stepsOf(change: string): Promise<{ up: string; down: string; after: string }> {
    const dependents = (keys: readonly string[]): Promise<string[]> => dependentsOf(client, keys);
    const before = await readSchema(client);
    await client.query('SAVEPOINT before');
    await client.query(change);
    const [after, text] = [await readSchema(client), await schemaText(client)];
    const down = statementsOf(await differenceBetween(after, before, dependents));
    await client.query('ROLLBACK TO before');
    return { up: statementsOf(await differenceBetween(before, after, dependents)), down, after: text };
  }

  it.each(CHANGES)('states anew, and takes back, %s', async (_what, before, change) => {
    await client.query(before);
    const old = await schemaText(client);
    const { up, down, after } = await stepsOf(change);
    expect(after).not.toBe(old);
    await client.query(up);
    expect(await schemaText(client)).toBe(after);
    await client.query(down);
    expect(await schemaText(client)).toBe(old);
  });

  it.each([
    ['--help', 0],
    ['', 1],
    ['--baseline --schema', 1],
    ['two names', 1],
  ])('says how it is used when it is called with "%s"', (words, code) => {
    const command = join(import.meta.dirname, '../../../scripts/migration-release.mjs');
    const called = spawnSync(process.execPath, [command, ...words.split(' ').filter(Boolean)], { encoding: 'utf8' });
    expect(called.stdout).toContain('Usage: npm run migration:release');
    expect(called.status).toBe(code);
  });

  it('finds nothing where nothing changed', async () => {
    await client.query(PARCELS);
    expect(await stepsOf('SELECT 1')).toMatchObject({ up: '', down: '' });
  });

  it('keeps a table’s key younger than the indexes that hold it, as it was made', async () => {
    const { up } = await stepsOf(PARCELS);
    expect(up.indexOf('parcels_pkey')).toBeGreaterThan(up.indexOf('parcels_weight_idx'));
  });

  it.each([
    ['a column', 'ALTER TABLE waybill.parcels ADD sent_at timestamptz', 'after:  sent_at timestamp with time zone'],
    [
      'a constraint',
      `ALTER TABLE waybill.parcels DROP CONSTRAINT parcels_code_key`,
      'before: ALTER TABLE waybill.parcels ADD CONSTRAINT parcels_code_key',
    ],
    [
      'a domain’s default',
      `ALTER DOMAIN waybill.parcel_code SET DEFAULT 'x'`,
      'after:  CREATE DOMAIN waybill.parcel_code',
    ],
  ])('leaves a place for a person where %s changes', async (_what, change, says) => {
    await client.query(PARCELS);
    const { up } = await stepsOf(change);
    expect(up).toContain(MARK);
    expect(up).toContain(says);
    expect(up.split('\n').every((line) => line.startsWith('--'))).toBe(true);
  });
});
