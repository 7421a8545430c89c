import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { lineOf } from '../../src/database/released-steps.js';

/** In this order they run: an area may use what those before it made. Each is a folder of migrations/sql. */
export const AREAS = [
  'context',
  'identity',
  'audit',
  'workflow',
  'tenancy',
  'orders',
  'idempotency',
  'payments',
  'simulated-provider',
] as const;

export type Area = (typeof AREAS)[number];

/** A file of migrations/sql. */
export interface SourceFile {
  area: Area;
  /** for example `orders/1-tables.sql` */
  name: string;
  text: string;
}

const FOLDER = join(import.meta.dirname, '../../migrations/sql');

/**
 * What the database is, in the order in which it is made.
 *
 * @throws Error when there is a folder that isn't in the list of areas
 */
export function readSources(): SourceFile[] {
  const folders = readdirSync(FOLDER, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const unknown = folders.map(({ name }) => name).filter((name) => !(AREAS as readonly string[]).includes(name));
  if (unknown.length > 0)
    throw new Error(`Say in scripts/migration-release/sources.ts when ${unknown.join(', ')} runs`);
  return AREAS.flatMap((area) => {
    const files = readdirSync(join(FOLDER, area)).filter((name) => name.endsWith('.sql'));
    return files.toSorted().map((file) => ({
      area,
      name: `${area}/${file}`,
      text: readFileSync(join(FOLDER, area, file), 'utf8'),
    }));
  });
}

/**
 * Makes the schema from its sources, as the owner, in one transaction.
 *
 * @param client of `waybill_owner`, on a database that has Waybill's roles and nothing else
 * @param afterArea called when all files of an area have run
 */
export async function runSources(
  client: Client,
  sources: readonly SourceFile[],
  afterArea: (area: Area) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  await client.query('BEGIN');
  for (const area of AREAS) {
    for (const { name, text } of sources.filter((source) => source.area === area)) {
      await client.query(text).catch((error: Error) => {
        error.message = `migrations/sql/${name}${lineOf(text, error)}: ${error.message}`;
        throw error;
      });
      const [end] = (await client.query<{ role: string }>('SELECT current_user AS role')).rows;
      if (end?.role !== 'waybill_owner')
        throw new Error(`migrations/sql/${name} ends as ${end?.role}: RESET ROLE is missing`);
    }
    await afterArea(area);
  }
  await client.query('COMMIT');
}
