import { randomBytes } from 'node:crypto';
import { afterAll, describe, expect, it } from '@jest/globals';
import { readSources, runSources } from '../../../scripts/migration-release/sources.js';
import { bootstrapCluster, databaseUrl } from '../../../src/database/bootstrap.js';
import type { RolePasswords } from '../../../src/database/embedded/index.js';
import { createTestDatabase } from '../../support/database.js';
import { schemaText } from '../../support/schema-text.js';
import { rows, withClient } from '../../support/sql.js';

const SERVER = process.env.WAYBILL_TEST_SUPERUSER_URL ?? '';

describe('the files of migrations/sql', () => {
  const name = `${process.env.WAYBILL_TEST_PREFIX}_sources_${randomBytes(4).toString('hex')}`;
  afterAll(() => rows(SERVER, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));

  it('make from nothing what the released steps make', async () => {
    const passwords = JSON.parse(process.env.WAYBILL_TEST_PASSWORDS ?? '{}') as RolePasswords;
    const { ownerUrl } = await bootstrapCluster(SERVER, name, passwords);
    await withClient(ownerUrl, (client) => runSources(client, readSources()));
    const released = await createTestDatabase();
    try {
      const expected = await withClient(released.superuserUrl, schemaText);
      // `npm run migration:release` writes the step that makes them equal.
      expect(await withClient(databaseUrl(SERVER, name).href, schemaText)).toBe(expected);
    } finally {
      await released.drop();
    }
  });
});
