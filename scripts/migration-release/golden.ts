import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { readSchema } from '../../src/database/schema/read-schema.js';
import { record } from '../../src/database/schema/recorded-schema.js';
import { keyOf, KINDS, type SchemaObject } from '../../src/database/schema/schema-object.js';
import { type Area, AREAS, runSources, type SourceFile } from './sources.js';

const FOLDER = join(import.meta.dirname, '../../migrations/schema');

/** The schema that the sources make, and which area makes what of it. */
export interface SourceSchema {
  objects: SchemaObject[];
  /** By kind and name. */
  areas: ReadonlyMap<string, Area>;
}

/**
 * Makes the schema from its sources, area by area. An object belongs to the area after which it is first there.
 *
 * @param owner on a database with Waybill's roles and nothing else
 * @throws Error when an area changes what an earlier one made
 */
export async function makeFromSources(owner: Client, sources: readonly SourceFile[]): Promise<SourceSchema> {
  const areas = new Map<string, Area>();
  const made = new Map<string, string>();
  let objects: SchemaObject[] = [];
  await runSources(owner, sources, async (area) => {
    objects = await readSchema(owner);
    for (const object of objects) {
      const key = keyOf(object);
      if (!areas.has(key)) areas.set(key, area);
      else if (made.get(key) !== object.create)
        throw new Error(`The area ${area} changes the ${key} of the area ${areas.get(key)}`);
      made.set(key, object.create);
    }
  });
  return { objects, areas };
}

/** The files of migrations/schema by name: a text an area, and what doctor compares with. */
export function goldenFiles({ objects, areas }: SourceSchema): Map<string, string> {
  const texts = AREAS.map((area): [string, string] => [
    `${area}.sql`,
    textOf(
      area,
      objects.filter((object) => areas.get(keyOf(object)) === area),
    ),
  ]);
  return new Map([...texts, ['objects.json', `${JSON.stringify(record(objects), null, 2)}\n`]]);
}

export function readGoldenFiles(): Map<string, string> {
  const names = readdirSync(FOLDER).toSorted();
  return new Map(names.map((name) => [name, readFileSync(join(FOLDER, name), 'utf8')]));
}

export function writeGoldenFiles(files: ReadonlyMap<string, string>): void {
  for (const name of readdirSync(FOLDER)) if (!files.has(name)) rmSync(join(FOLDER, name));
  for (const [name, text] of files) writeFileSync(join(FOLDER, name), text);
}

function textOf(area: Area, objects: readonly SchemaObject[]): string {
  const groups = new Map<string, SchemaObject[]>();
  for (const object of objects) groups.set(object.of, [...(groups.get(object.of) ?? []), object]);
  const texts = [...groups]
    .toSorted(([a], [b]) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))
    .map(([, parts]) => parts.map(({ create }) => create.replaceAll(/[ \t]+$/gm, '')).join('\n'));
  const head = `-- What the area ${area} makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.`;
  return `${[head, ...texts].join('\n\n')}\n`;
}

/** Where the group of a table, view, … stands: its first words are a kind. */
function rankOf(of: string): number {
  return KINDS.findIndex((kind) => of.startsWith(`${kind} `));
}
