import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { schemaText } from '../../support/schema-text.js';
import { withClient } from '../../support/sql.js';

const FILE = join(import.meta.dirname, '../../../migrations/schema.sql');

describe('migrations/schema.sql', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it('is what the migrations make, on every version of PostgreSQL', async () => {
    const actual = await withClient(database.superuserUrl, schemaText);
    if (process.env.UPDATE_GOLDEN === '1') await writeFile(FILE, actual);
    // The whole difference shows; UPDATE_GOLDEN=1 npm test -- golden-schema accepts it.
    expect(actual).toBe(await readFile(FILE, 'utf8'));
  });

  it.each([
    ['a column', 'ALTER TABLE waybill.orders ADD note text'],
    ['a default', `ALTER TABLE waybill.orders ALTER channel SET DEFAULT 'web'`],
    ['a constraint', 'ALTER TABLE waybill.orders DROP CONSTRAINT orders_version_positive'],
    ['an index', 'DROP INDEX waybill.orders_updated_idx'],
    ['a trigger', 'DROP TRIGGER orders_20_update ON waybill.orders'],
    ['a trigger that is off', 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_20_update'],
    ['a policy', 'CREATE POLICY orders_more ON waybill.orders FOR SELECT TO waybill_sealer USING (true)'],
    ['a right', 'GRANT DELETE ON waybill.orders TO waybill_app'],
    ['a right on a column', 'GRANT UPDATE (name) ON waybill.tenants TO waybill_app'],
    ['a right on a function', 'GRANT EXECUTE ON FUNCTION waybill.add_state TO waybill_app'],
    ['a function', 'ALTER FUNCTION waybill.guard_update SECURITY INVOKER'],
    ['a view', 'ALTER VIEW waybill.order_details SET (security_invoker = false)'],
    ['an owner', 'ALTER TABLE waybill.orders OWNER TO waybill_app'],
    ['row level security', 'ALTER TABLE waybill.orders NO FORCE ROW LEVEL SECURITY'],
    ['a transition', `UPDATE waybill.valid_transitions SET roles = '{viewer}'`],
  ])('would show that %s has changed', async (_what, statement) => {
    await withClient(database.superuserUrl, async (client) => {
      const before = await schemaText(client);
      await client.query('BEGIN');
      await client.query(statement);
      expect(await schemaText(client)).not.toBe(before);
      await client.query('ROLLBACK');
      expect(await schemaText(client)).toBe(before);
    });
  });
});
