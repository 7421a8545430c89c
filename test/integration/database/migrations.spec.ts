import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { loadConfig, type ServiceConfig } from '../../../src/config.js';
import { bootstrapCluster, databaseUrl, type RoleUrls } from '../../../src/database/bootstrap.js';
import type { RolePasswords } from '../../../src/database/embedded/index.js';
import { migrate, migrateDown, migrationStatus } from '../../../src/database/migrate.js';
import { releasedSteps } from '../../../src/database/released-steps.js';
import { startTestApp } from '../../support/app.js';
import { createTestDatabase } from '../../support/database.js';
import { place, placeIn, read } from '../../support/orders.js';
import { schemaText } from '../../support/schema.js';
import { refusalOf, rows, withClient } from '../../support/sql.js';

const NAMES = releasedSteps().map(({ name }) => name);
const SERVER = process.env.WAYBILL_TEST_SUPERUSER_URL ?? '';

describe('the migrations', () => {
  const made: string[] = [];
  // TypeORM prints migrations that fail, whatever its settings.
  beforeAll(() => {
    jest.spyOn(console, 'log').mockImplementation(() => undefined);
  });
  afterAll(async () => {
    for (const name of made) await rows(SERVER, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  });

  /** A database with its roles' rights and nothing in it, as an administrator's bootstrap leaves it. */
  async function emptyDatabase(): Promise<RoleUrls & { superuserUrl: string }> {
    const name = `${process.env.WAYBILL_TEST_PREFIX}_empty_${randomBytes(4).toString('hex')}`;
    made.push(name);
    const passwords = JSON.parse(process.env.WAYBILL_TEST_PASSWORDS ?? '{}') as RolePasswords;
    return { ...(await bootstrapCluster(SERVER, name, passwords)), superuserUrl: databaseUrl(SERVER, name).href };
  }

  const leftovers = (url: string) =>
    rows<{ what: string }>(
      url,
      `SELECT 'schema ' || nspname AS what FROM pg_namespace WHERE nspname IN ('waybill', 'audit')
       UNION ALL SELECT 'default privileges of ' || defaclrole::regrole FROM pg_default_acl
       UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace`,
    );

  it('go up, all the way down, and up again to the same schema', async () => {
    const { ownerUrl, superuserUrl } = await emptyDatabase();
    expect((await migrationStatus(ownerUrl)).map(({ applied }) => applied)).toEqual(NAMES.map(() => false));
    expect(await migrate(ownerUrl)).toEqual(NAMES);
    expect(await migrationStatus(ownerUrl)).toEqual(NAMES.map((name) => ({ name, applied: true })));
    const first = await withClient(superuserUrl, schemaText);

    for (const name of NAMES.toReversed()) expect(await migrateDown(ownerUrl)).toBe(name);
    expect(await migrateDown(ownerUrl)).toBeNull();
    expect(await leftovers(superuserUrl)).toEqual([]);

    expect(await migrate(ownerUrl)).toEqual(NAMES);
    expect(await withClient(superuserUrl, schemaText)).toBe(first);
  });

  it('go down one by one and up again from each step', async () => {
    const { ownerUrl, superuserUrl } = await emptyDatabase();
    await migrate(ownerUrl);
    const whole = await withClient(superuserUrl, schemaText);
    for (let steps = 1; steps < NAMES.length; steps += 1) {
      for (let i = 0; i < steps; i += 1) await migrateDown(ownerUrl);
      expect(await migrate(ownerUrl)).toEqual(NAMES.slice(-steps));
      expect(await withClient(superuserUrl, schemaText)).toBe(whole);
    }
  });

  it('do nothing the second time', async () => {
    const database = await createTestDatabase();
    try {
      const before = await withClient(database.superuserUrl, schemaText);
      expect(await migrate(database.ownerUrl)).toEqual([]);
      expect(await withClient(database.superuserUrl, schemaText)).toBe(before);
    } finally {
      await database.drop();
    }
  });

  it('keep the data when they run again, and take it with them when they go down', async () => {
    const database = await createTestDatabase();
    try {
      const service = await startTestApp({ database });
      const order = await placeIn(service.as('operator'), 'shipped');
      await migrate(database.ownerUrl);
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
      await service.close();
      while ((await migrateDown(database.ownerUrl)) !== NAMES[0]);
      await migrate(database.ownerUrl);
      const [count] = await rows(database.superuserUrl, 'SELECT count(*)::int FROM waybill.orders');
      expect(count).toEqual({ count: 0 });
      const again = await startTestApp({ database });
      await place(again.as('operator'));
      await again.close();
    } finally {
      await database.drop();
    }
  });

  it('started by several processes at once run once', async () => {
    const { ownerUrl, superuserUrl } = await emptyDatabase();
    const main = join(import.meta.dirname, '../../support/migrate-main.mjs');
    const runs = await Promise.all([
      ...Array.from({ length: 3 }, async () => {
        const { stdout } = await promisify(execFile)(process.execPath, [main, ownerUrl]);
        return JSON.parse(stdout) as string[];
      }),
      ...Array.from({ length: 3 }, () => migrate(ownerUrl)),
    ]);
    expect(runs.filter((applied) => applied.length > 0)).toEqual([NAMES]);
    const applied = await rows<{ name: string }>(superuserUrl, 'SELECT name FROM migrations.applied ORDER BY id');
    expect(applied.map(({ name }) => name)).toEqual(NAMES);
  });

  it('refuse another role than the owner, and say which address to set', async () => {
    const { superuserUrl, appUrl } = await emptyDatabase();
    await expect(migrate(superuserUrl)).rejects.toThrow('Migrations run as waybill_owner, not as postgres');
    expect((await refusalOf(migrate(appUrl))).code).toBe('42501');
    expect(await leftovers(superuserUrl)).toEqual([]);
  });

  it('leave nothing of one that fails, and say where it did', async () => {
    const { ownerUrl, superuserUrl } = await emptyDatabase();
    await rows(superuserUrl, 'CREATE SCHEMA audit AUTHORIZATION waybill_audit');
    await expect(migrate(ownerUrl)).rejects.toThrow('schema "audit" already exists');
    expect(await migrationStatus(ownerUrl)).toEqual(NAMES.map((name) => ({ name, applied: false })));
    await rows(superuserUrl, 'DROP SCHEMA audit');
    expect(await leftovers(superuserUrl)).toEqual([]);
    expect(await migrate(ownerUrl)).toEqual(NAMES);
  });

  it('are missed by the service, which names them instead of serving', async () => {
    const empty = await emptyDatabase();
    expect(await startFailure(empty)).toContain(
      `The database lacks migrations of this version: ${NAMES.join(', ')}. Run \`npx waybill migrate\` first.`,
    );
    expect(await leftovers(empty.superuserUrl)).toEqual([]);
    const migrated = await createTestDatabase();
    try {
      await rows(migrated.superuserUrl, 'DELETE FROM migrations.applied WHERE name = $1', [NAMES.at(-1)]);
      expect(await startFailure(migrated)).toContain(`lacks migrations of this version: ${NAMES.at(-1)}.`);
    } finally {
      await migrated.drop();
    }
  });

  it('of an extension are missed, too', async () => {
    const database = await createTestDatabase();
    try {
      const failure = await startFailure(database, { extensionSteps: ['Returns1764460801001'] });
      expect(failure).toContain('lacks migrations of this version: Returns1764460801001.');
    } finally {
      await database.drop();
    }
  });

  it('that this version doesn’t know are named by whatever meets them: service and migrator refuse', async () => {
    const database = await createTestDatabase();
    const unknown = '9999-far-4102444800000';
    try {
      await rows(database.superuserUrl, 'INSERT INTO migrations.applied (timestamp, name) VALUES (4102444800000, $1)', [
        unknown,
      ]);
      const refusal = `The database has migrations that this version doesn't know: ${unknown}.`;
      expect(await startFailure(database)).toContain(refusal);
      await expect(migrate(database.ownerUrl)).rejects.toThrow(refusal);
      await expect(migrateDown(database.ownerUrl)).rejects.toThrow(refusal);
      expect(await migrationStatus(database.ownerUrl)).toContainEqual({
        name: unknown,
        applied: true,
        isUnknown: true,
      });

      // While processes are rolled, the version before goes on.
      const service = await startTestApp({ database, env: { WAYBILL_NEWER_DATABASE: 'allow' } });
      await place(service.as('operator'));
      await service.close();
      expect(await migrate(database.ownerUrl, [], { allowsNewer: true })).toEqual([]);
    } finally {
      await database.drop();
    }
  });

  /** Why the service doesn't start on a database; fails when it does. */
  async function startFailure(
    { appUrl, ownerUrl, sealerUrl }: RoleUrls,
    more: Partial<ServiceConfig> = {},
  ): Promise<string> {
    const { createApp } = await import('../../../src/app.js');
    const config = { ...loadConfig({ LOG_LEVEL: 'fatal' }), database: { appUrl, ownerUrl, sealerUrl }, ...more };
    const app = await createApp(config).catch((error: Error) => error);
    const failure = app instanceof Error ? app : await app.init().catch((error: Error) => error);
    if (!(app instanceof Error)) await app.close();
    if (!(failure instanceof Error)) throw new Error('The service started');
    return failure.message;
  }
});
