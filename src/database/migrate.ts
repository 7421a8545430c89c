import { DataSource } from 'typeorm';
import { parseAddress } from './address/database-address.js';
import { appliedSteps, compareSteps, refuseNewer, stepName } from './applied-steps.js';
import { SteadyClient } from './client.js';
import { type MigrationClass, releasedSteps } from './released-steps.js';

/** Any number that nothing else on the server locks: two migrators of one database must not meet. */
const MIGRATION_LOCK = 7_241_993_601;
/**
 * Longest that a step of a migration waits for a table, in milliseconds. Whatever it waits for, all that comes after it
 * waits for it: a migration that can't have the table soon is better tried again later.
 */
const LOCK_TIMEOUT = 10_000;
/** The service looks at its start whether its steps are there. */
const SHOW_APPLIED = `GRANT USAGE ON SCHEMA migrations TO waybill_app, waybill_sealer;
  GRANT SELECT ON migrations.applied TO waybill_app, waybill_sealer`;

export interface MigrationStatus {
  name: string;
  applied: boolean;
  /** It is one of a newer version. */
  isUnknown?: true;
}

/**
 * Brings a database to the newest schema. Safe to run twice and by several processes at once: they queue.
 *
 * @param ownerUrl address of `waybill_owner`
 * @param extensions migrations that extensions bring, besides Waybill's own
 * @param options.allowsNewer whether a database of a newer version is left as it is, rather than refused
 * @returns names of the migrations that this call applied
 * @throws StepsMismatch for a database with steps that this version doesn't know
 */
export function migrate(
  ownerUrl: string,
  extensions: readonly MigrationClass[] = [],
  { allowsNewer = false } = {},
): Promise<string[]> {
  return withMigrator(ownerUrl, extensions, async (source) => {
    if (!allowsNewer) await requireKnown(source, extensions);
    const applied = await source.runMigrations({ transaction: 'each' });
    await source.query(SHOW_APPLIED);
    return applied.map((migration) => migration.name);
  });
}

/** Takes the newest migration back, with the data that it made room for. Returns its name, or null when none is left. */
export function migrateDown(ownerUrl: string, extensions: readonly MigrationClass[] = []): Promise<string | null> {
  return withMigrator(ownerUrl, extensions, async (source) => {
    await requireKnown(source, extensions);
    const last = (await namesIn(source)).at(-1);
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

async function requireKnown(source: DataSource, extensions: readonly MigrationClass[]): Promise<void> {
  refuseNewer(compareSteps(await namesIn(source), extensions.map(stepName)));
}

function namesIn(source: DataSource): Promise<string[]> {
  return appliedSteps((text) => source.query(text));
}

async function statusOf(source: DataSource): Promise<MigrationStatus[]> {
  const names = await namesIn(source);
  const applied = new Set(names);
  // In the order in which they run.
  const own = source.migrations
    .map(({ name, constructor }) => name ?? constructor.name)
    .toSorted((a, b) => Number(a.slice(-13)) - Number(b.slice(-13)))
    .map((name) => ({ name, applied: applied.has(name) }));
  const { newer } = compareSteps(names);
  return [...own, ...newer.map((name) => ({ name, applied: true, isUnknown: true as const }))];
}

async function withMigrator<T>(
  ownerUrl: string,
  extensions: readonly MigrationClass[],
  work: (source: DataSource) => Promise<T>,
): Promise<T> {
  const source = new DataSource({
    type: 'postgres',
    database: parseAddress(ownerUrl).database,
    schema: 'migrations',
    migrations: [...releasedSteps().map(({ Migration }) => Migration), ...extensions],
    migrationsTableName: 'applied',
    applicationName: 'waybill migrate',
    installExtensions: false,
    poolSize: 2,
    extra: { Client: SteadyClient, connectionString: ownerUrl, lock_timeout: LOCK_TIMEOUT },
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
