import { readFileSync } from 'node:fs';
import { findUp } from '../embedded/find-up.js';
import { fingerprint, type SchemaKind, type SchemaObject } from './schema-object.js';

/** Of each kind the names of what there is, with the fingerprint of what makes it. */
export type RecordedSchema = Readonly<Partial<Record<SchemaKind, Readonly<Record<string, string>>>>>;

/** What the newest step of this version leaves behind, as it was recorded beside the golden text. */
export function recordedSchema(): RecordedSchema {
  const file = findUp(import.meta.url, 'migrations/schema/objects.json');
  if (!file) throw new Error('migrations/schema/objects.json is missing from this installation');
  return JSON.parse(readFileSync(file, 'utf8')) as RecordedSchema;
}

/** The same of a schema that was read. */
export function record(objects: readonly SchemaObject[]): RecordedSchema {
  const recorded: Partial<Record<SchemaKind, Record<string, string>>> = {};
  for (const object of objects) (recorded[object.kind] ??= {})[object.name] = fingerprint(object);
  return recorded;
}
