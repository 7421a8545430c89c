import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { sealerPool } from '../../../src/audit/log/sealer-pool.js';
import { withClient } from '../../../src/database/client.js';
import { dataSourceOptions } from '../../../src/database/connection.js';
import { PINNED_SETTINGS } from '../../../src/database/session-settings.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { startSealing } from '../../support/audit.js';
import type { Order } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { placeIn, read } from '../../support/orders.js';
import { rows } from '../../support/sql.js';

/** What somebody may have set for a role or a database. */
const HOSTILE: Readonly<Record<string, string>> = {
  TimeZone: 'Asia/Kathmandu',
  DateStyle: 'SQL, DMY',
  IntervalStyle: 'iso_8601',
  bytea_output: 'escape',
  extra_float_digits: '-15',
  standard_conforming_strings: 'off',
  row_security: 'off',
  search_path: 'pg_temp',
  array_nulls: 'off',
  transform_null_equals: 'on',
  quote_all_identifiers: 'on',
};
const ROLES = ['waybill_app', 'waybill_sealer', 'waybill_owner'];

describe('a database whose settings for our roles are strange', () => {
  let database: TestDatabase;
  let service: TestApp;
  /** Placed and moved before anything was set. */
  let before: Order;
  beforeAll(async () => {
    database = await createTestDatabase();
    service = await startTestApp({ database });
    before = await placeIn(service.as('operator'), 'shipped');
    await service.close();
    for (const role of ROLES) {
      for (const [name, value] of Object.entries(HOSTILE)) {
        const setting = name === 'search_path' ? value : `'${value}'`;
        await rows(database.superuserUrl, `ALTER ROLE ${role} IN DATABASE ${database.name} SET ${name} = ${setting}`);
      }
    }
    service = await startTestApp({ database });
  });
  afterAll(async () => {
    await service.close();
    await database.drop();
  });

  const pinned = `SELECT name, setting FROM pg_settings WHERE name = ANY ('{${Object.keys(PINNED_SETTINGS).join()}}')`;
  const expectPinned = (found: { name: string; setting: string }[]): void => {
    const shown = Object.fromEntries(found.map(({ name, setting }) => [name, setting]));
    expect(shown).toEqual({ ...PINNED_SETTINGS, DateStyle: expect.stringMatching(/^ISO, /) });
  };

  it('is met by every kind of connection with the settings that we rely on', async () => {
    expect(Object.keys(HOSTILE).toSorted()).toEqual(Object.keys(PINNED_SETTINGS).toSorted());
    const timeouts = { connectSeconds: 5, statementSeconds: 15, lockSeconds: 5 };
    const source = new DataSource(dataSourceOptions({ url: database.appUrl, poolSize: 1, timeouts }));
    await source.initialize();
    expectPinned(await source.query(pinned));
    await source.destroy();
    const pool = sealerPool(database.sealerUrl);
    expectPinned((await pool.query<{ name: string; setting: string }>(pinned)).rows);
    await pool.end();
    await withClient({ connectionString: database.ownerUrl }, async (client) => {
      expectPinned((await client.query<{ name: string; setting: string }>(pinned)).rows);
    });
  });

  it('answers, records and proves as any other', async () => {
    const operator = service.as('operator');
    expect(await read(operator, before.id)).toEqual(before);
    const order = await placeIn(operator, 'shipped');
    expect(order.placedAt).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(Math.abs(Date.parse(order.placedAt) - Date.now())).toBeLessThan(60_000);
    const sealing = await startSealing(database);
    await sealing.seal();
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact' });
    await sealing.close();
  });
});
