import { type MigrationClass, releasedSteps, STEP_NAME } from './released-steps.js';

/** How the steps that a database has differ from those of this version and its extensions. */
export interface StepsDifference {
  /** In the order in which they run. */
  missing: string[];
  /** Waybill's own that this version doesn't know: those of a newer one. */
  newer: string[];
}

/** A build and its database don't belong together. The message says which steps are meant, and what to do. */
export class StepsMismatch extends Error {
  override readonly name = 'StepsMismatch';
}

/** Asks the database for rows; with a pool, a connection or TypeORM. */
type Ask = (text: string) => Promise<unknown>;

/** Names of the migrations that a database has, in the order in which they were applied. Any of Waybill's roles may ask. */
export async function appliedSteps(ask: Ask): Promise<string[]> {
  const known = (await ask(`SELECT to_regclass('migrations.applied') IS NOT NULL AS exists`)) as { exists: boolean }[];
  if (!known[0]?.exists) return [];
  const rows = (await ask('SELECT name FROM migrations.applied ORDER BY id')) as { name: string }[];
  return rows.map(({ name }) => name);
}

export function compareSteps(applied: readonly string[], extensionSteps: readonly string[] = []): StepsDifference {
  const own = releasedSteps().map(({ name }) => name);
  return {
    missing: [...own, ...extensionSteps].filter((name) => !applied.includes(name)),
    newer: applied.filter((name) => STEP_NAME.test(name) && !own.includes(name)),
  };
}

/** What a migration is recorded as. */
export function stepName(Migration: MigrationClass): string {
  return new Migration().name ?? Migration.name;
}

/** @throws StepsMismatch for a database of a newer version */
export function refuseNewer({ newer }: StepsDifference): void {
  if (newer.length === 0) return;
  throw new StepsMismatch(
    `The database has migrations that this version doesn't know: ${newer.join(', ')}. Use the version that it is of. ` +
      'While you roll or go back, and the notes of the newer version say that this one runs on its database, set WAYBILL_NEWER_DATABASE=allow.',
  );
}

/** @throws StepsMismatch for a database that this version can't be served with */
export function requireSteps(difference: StepsDifference, allowsNewer: boolean): void {
  const { missing } = difference;
  if (missing.length > 0) {
    throw new StepsMismatch(
      `The database lacks migrations of this version: ${missing.join(', ')}. Run \`npx waybill migrate\` first.`,
    );
  }
  if (!allowsNewer) refuseNewer(difference);
}
