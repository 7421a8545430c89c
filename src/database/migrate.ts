import { DataSource } from 'typeorm';
import { type MigrationClass, releasedSteps } from './released-steps.js';

/** Any number that nothing else on the server locks: two migrators of one database must not meet. */
const MIGRATION_LOCK = 7_241_993_601;
/**
 * Longest that a step of a migration waits for a table, in milliseconds. Whatever it waits for, all that comes after it
 * waits for it: a migration that can't have the table soon is better tried again later.
 */
const LOCK_TIMEOUT = 10_000;

export interface MigrationStatus {
  name: string;
  applied: boolean;
}

/**
 * Brings a database to the newest schema. Safe to run twice and by several processes at once: they queue.
 *
 * @param ownerUrl address of `waybill_owner`
 * @param extensions migrations that extensions bring, besides Waybill's own
 * @returns names of the migrations that this call applied
 */
export function migrate(ownerUrl: string, extensions: readonly MigrationClass[] = []): Promise<string[]> {
  return withMigrator(ownerUrl, extensions, async (source) => {
    const applied = await source.runMigrations({ transaction: 'each' });
    return applied.map((migration) => migration.name);
  });
}

/** Takes the newest migration back, with the data that it made room for. Returns its name, or null when none is left. */
export function migrateDown(ownerUrl: string, extensions: readonly MigrationClass[] = []): Promise<string | null> {
  return withMigrator(ownerUrl, extensions, async (source) => {
    const last = (await appliedNames(source)).at(-1);
    if (last === undefined) return null;
    await source.undoLastMigration({ transaction: 'each' });
    return last;
  });
}

/** Which migrations a database has. */
export function migrationStatus(
  ownerUrl: string,
  extensions: readonly MigrationClass[] = [],
): Promise<MigrationStatus[]> {
  return withMigrator(ownerUrl, extensions, statusOf);
}

/** In the order in which they were applied. An extension's may be there before a younger step of Waybill. */
async function appliedNames(source: DataSource): Promise<string[]> {
  const [{ exists }] = await source.query(`SELECT to_regclass('migrations.applied') IS NOT NULL AS exists`);
  const rows: { name: string }[] = exists ? await source.query('SELECT name FROM migrations.applied ORDER BY id') : [];
  return rows.map((row) => row.name);
}

async function statusOf(source: DataSource): Promise<MigrationStatus[]> {
  const applied = new Set(await appliedNames(source));
  // In the order in which they run.
  return source.migrations
    .map(({ name, constructor }) => name ?? constructor.name)
    .toSorted((a, b) => Number(a.slice(-13)) - Number(b.slice(-13)))
    .map((name) => ({ name, applied: applied.has(name) }));
}

async function withMigrator<T>(
  ownerUrl: string,
  extensions: readonly MigrationClass[],
  work: (source: DataSource) => Promise<T>,
): Promise<T> {
  const source = new DataSource({
    type: 'postgres',
    url: ownerUrl,
    schema: 'migrations',
    migrations: [...releasedSteps().map(({ Migration }) => Migration), ...extensions],
    migrationsTableName: 'applied',
    applicationName: 'waybill migrate',
    installExtensions: false,
    poolSize: 2,
    extra: { lock_timeout: LOCK_TIMEOUT },
  });
  await source.initialize();
  const holder = source.createQueryRunner();
  try {
    // Another migrator may take its time.
    await holder.query('SET lock_timeout = 0');
    await holder.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await holder.query('CREATE SCHEMA IF NOT EXISTS migrations');
    return await work(source);
  } finally {
    await holder.release();
    await source.destroy(); // ends the session, and so the lock
  }
}
