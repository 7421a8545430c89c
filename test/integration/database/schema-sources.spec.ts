import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  goldenFiles,
  makeFromSources,
  readGoldenFiles,
  type SourceSchema,
} from '../../../scripts/migration-release/golden.js';
import { readSources } from '../../../scripts/migration-release/sources.js';
import { bootstrapCluster, databaseUrl } from '../../../src/database/bootstrap.js';
import type { RolePasswords } from '../../../src/database/embedded/index.js';
import { record, recordedSchema } from '../../../src/database/schema/recorded-schema.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { schemaText } from '../../support/schema.js';
import { rows, withClient } from '../../support/sql.js';

const SERVER = process.env.WAYBILL_TEST_SUPERUSER_URL ?? '';

describe('the schema', () => {
  const name = `${process.env.WAYBILL_TEST_PREFIX}_sources_${randomBytes(4).toString('hex')}`;
  let released: TestDatabase;
  let fromSources: SourceSchema;
  beforeAll(async () => {
    released = await createTestDatabase();
    const passwords = JSON.parse(process.env.WAYBILL_TEST_PASSWORDS ?? '{}') as RolePasswords;
    const { ownerUrl } = await bootstrapCluster(SERVER, name, passwords);
    fromSources = await withClient(ownerUrl, (client) => makeFromSources(client, readSources()));
  });
  afterAll(async () => {
    await released.drop();
    await rows(SERVER, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  });

  // Where one of these two fails, `npm run migration:release` writes what is missing; migrations/README.md says how.
  it('is the same from migrations/sql and from migrations/released', async () => {
    const wanted = await withClient(databaseUrl(SERVER, name).href, schemaText);
    expect(await withClient(released.superuserUrl, schemaText)).toBe(wanted);
  });

  it('stands in migrations/schema, where version 18 writes it and every other one agrees', async () => {
    expect(record(fromSources.objects)).toEqual(recordedSchema());
    const [server] = await rows<{ major: number }>(
      SERVER,
      `SELECT current_setting('server_version_num')::int / 10000 AS major`,
    );
    const files = goldenFiles(fromSources);
    const golden = readGoldenFiles();
    expect([...golden.keys()]).toEqual([...files.keys()].toSorted());
    for (const [file, text] of files) if (server?.major === 18) expect(text).toBe(golden.get(file));
  });

  it('has nothing that is of no kind that is read', async () => {
    const found = await rows(
      released.superuserUrl,
      `SELECT pg_describe_object(d.classid, d.objid, 0) AS what
       FROM pg_depend d JOIN pg_namespace n ON d.refclassid = 'pg_namespace'::regclass AND n.oid = d.refobjid
       LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
       LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
       LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
       WHERE n.nspname IN ('waybill', 'audit', 'payment_inbox', 'simulated_provider')
         AND NOT coalesce(c.relkind IN ('r', 'p', 'v', 'm', 'S', 'c') AND NOT c.relispartition, p.prokind <> 'a', t.typtype IN ('d', 'c', 'e'), false)
       UNION ALL SELECT format('rule %s on %s', r.rulename, r.ev_class::regclass) FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
         JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname IN ('waybill', 'audit', 'payment_inbox', 'simulated_provider') AND r.rulename <> '_RETURN'`,
    );
    expect(found).toEqual([]);
  });

  it.each([
    ['a column', 'ALTER TABLE waybill.orders ADD note text'],
    ['a default', `ALTER TABLE waybill.orders ALTER channel SET DEFAULT 'web'`],
    ['a constraint', 'ALTER TABLE waybill.orders DROP CONSTRAINT orders_number_key'],
    ['an index', 'DROP INDEX waybill.orders_updated_idx'],
    ['a setting of a table', 'ALTER TABLE waybill.orders SET (fillfactor = 50)'],
    ['a trigger', 'DROP TRIGGER orders_00_context ON waybill.orders'],
    ['a trigger that is off', 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_00_context'],
    ['a policy', 'CREATE POLICY orders_more ON waybill.orders FOR SELECT TO waybill_sealer USING (true)'],
    ['a right', 'GRANT DELETE ON waybill.orders TO waybill_app'],
    ['a right on a column', 'GRANT UPDATE (name) ON waybill.tenants TO waybill_app'],
    ['a right on a function', 'GRANT EXECUTE ON FUNCTION waybill.add_state TO waybill_app'],
    ['a default right', 'ALTER DEFAULT PRIVILEGES FOR ROLE waybill_owner GRANT SELECT ON TABLES TO PUBLIC'],
    ['a function', 'ALTER FUNCTION waybill.set_context SECURITY DEFINER'],
    ['a view', 'ALTER VIEW audit.field_changes SET (security_invoker = false)'],
    ['an owner', 'ALTER TABLE waybill.orders OWNER TO waybill_app'],
    ['row level security', 'ALTER TABLE waybill.orders NO FORCE ROW LEVEL SECURITY'],
    ['a comment', `COMMENT ON TABLE waybill.orders IS 'another'`],
    ['a domain', 'CREATE DOMAIN waybill.colour AS text'],
    ['a table of payment_inbox', 'ALTER TABLE payment_inbox.stray_events ADD note text'],
    ['a transition', `UPDATE waybill.valid_transitions SET roles = '{viewer}'`],
  ])('shows that %s has changed', async (_what, statement) => {
    await withClient(released.superuserUrl, async (client) => {
      const before = await schemaText(client);
      await client.query('BEGIN');
      await client.query(statement);
      expect(await schemaText(client)).not.toBe(before);
      await client.query('ROLLBACK');
      expect(await schemaText(client)).toBe(before);
    });
  });
});

describe('the files of migrations/sql', () => {
  const folder = join(import.meta.dirname, '../../../migrations/sql');

  it('give a function or view one body: none is replaced by a later one', () => {
    expect(
      readSources()
        .filter(({ text }) => /\bOR\s+REPLACE\b/i.test(text))
        .map(({ name }) => name),
    ).toEqual([]);
  });

  it('all run: there is no file outside of the areas', () => {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => /\.\w+$/.test(file));
    expect(files.toSorted()).toEqual(
      readSources()
        .map(({ name }) => name)
        .toSorted(),
    );
  });

  it('are what they were when they were written: no template, no variable', () => {
    const texts = readSources().map(({ name }) => readFileSync(join(folder, name), 'utf8'));
    expect(texts.filter((text) => text.includes('${'))).toEqual([]);
  });
});
