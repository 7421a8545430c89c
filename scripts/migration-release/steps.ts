import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { migrate } from '../../src/database/migrate.js';
import { releasedFolder, releasedSteps } from '../../src/database/released-steps.js';
import { readSchema } from '../../src/database/schema/read-schema.js';
import type { SchemaObject } from '../../src/database/schema/schema-object.js';
import { dependentsOf } from './dependents.js';
import { type Difference, differenceBetween } from './difference.js';
import type { SourceFile } from './sources.js';
import { statementsOf } from './statements.js';
import type { OpenDatabase } from './throwaway-server.js';

const FROZEN = join(import.meta.dirname, '../../test/fixtures/released-steps.json');
const BASELINE_MADE = '2025-11-30T00:00:01.000Z';

export interface WrittenSteps {
  /** Names of files in migrations/released. */
  files: string[];
  /** Whether somebody has to write a part of them. */
  isForPerson: boolean;
  /** The schema without them. */
  before: readonly SchemaObject[];
}

/**
 * Writes the first step from the sources as they are.
 *
 * @throws Error when a step is frozen: somebody's database may have it
 */
export async function writeBaseline(
  schema: readonly SchemaObject[],
  sources: readonly SourceFile[],
): Promise<WrittenSteps> {
  const frozen = Object.keys(JSON.parse(readFileSync(FROZEN, 'utf8')) as object);
  if (frozen.length > 0)
    throw new Error(`${frozen.join(', ')} may be on a database already: release a step with a name`);
  const others = readdirSync(releasedFolder()).filter(
    (file) => file.endsWith('.sql') && !file.startsWith('0001-baseline.'),
  );
  if (others.length > 0) throw new Error(`Delete ${others.join(', ')} first: the baseline holds what they do`);
  const up = sources.map(({ name, text }) => `-- migrations/sql/${name}\n\n${text.trim()}`).join('\n\n');
  const down = await differenceBetween(schema, [], () => Promise.resolve([]));
  return { files: writeStep('0001-baseline', BASELINE_MADE, up, statementsOf(down)), isForPerson: false, before: [] };
}

/**
 * Writes the step that brings the schema of the released steps to that of the sources, and the one that takes it back.
 *
 * @param name of letters, digits and hyphens
 */
export async function writeNextStep(
  open: OpenDatabase,
  owner: Client,
  schema: readonly SchemaObject[],
  name: string,
): Promise<WrittenSteps> {
  if (!/^[a-z][a-z0-9-]*$/.test(name)) throw new Error(`A step's name has small letters, digits and hyphens: ${name}`);
  const [before, up, down] = await open('released', async (client, ownerUrl) => {
    await migrate(ownerUrl);
    const released = await readSchema(client);
    return [
      released,
      await differenceBetween(released, schema, (keys) => dependentsOf(client, keys)),
      await differenceBetween(schema, released, (keys) => dependentsOf(owner, keys)),
    ] as const;
  });
  if (isEmpty(up)) return { files: [], isForPerson: false, before };
  const last = releasedSteps().at(-1)?.name ?? '0000';
  const number = String(Number(last.slice(0, 4)) + 1).padStart(4, '0');
  const made = new Date(Math.max(Date.now(), Number(last.slice(-13)) + 1)).toISOString();
  const files = writeStep(`${number}-${name}`, made, statementsOf(up), statementsOf(down));
  return { files, isForPerson: up.alter.length > 0, before };
}

function isEmpty({ drop, alter, create }: Difference): boolean {
  return drop.length + alter.length + create.length === 0;
}

function writeStep(step: string, made: string, up: string, down: string): string[] {
  const number = step.slice(0, 4);
  const files = [`${step}.sql`, `${step}.down.sql`];
  const heads = [`-- Step ${number} of ${made}, by npm run migration:release.`, `-- Takes step ${number} back.`];
  for (const [at, text] of [up, down].entries())
    writeFileSync(join(releasedFolder(), files[at] ?? ''), `${heads[at]}\n\n${text}\n`);
  return files;
}
