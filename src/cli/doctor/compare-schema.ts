import type { RecordedSchema } from '../../database/schema/recorded-schema.js';
import { fingerprint, keyOf, type SchemaKind, type SchemaObject } from '../../database/schema/schema-object.js';

/** How a database's schema differs from the one that this version's steps make. */
export interface Comparison {
  /** By kind, the names of what the steps make. */
  wanted(kind: SchemaKind): string[];
  /** By kind, the names of what isn't there. */
  missing(kind: SchemaKind): string[];
  /** By kind, the names of what is there, but made otherwise. */
  changed(kind: SchemaKind): string[];
  /** What the steps didn't make: an extension did, or somebody by hand. */
  others: SchemaObject[];
}

export function compareSchema(found: readonly SchemaObject[], recorded: RecordedSchema): Comparison {
  const prints = new Map(found.map((object) => [keyOf(object), fingerprint(object)]));
  const wanted = (kind: SchemaKind): string[] => Object.keys(recorded[kind] ?? {});
  const printOf = (kind: SchemaKind, name: string): string | undefined => prints.get(keyOf({ kind, name }));
  const missing = (kind: SchemaKind): string[] => wanted(kind).filter((name) => printOf(kind, name) === undefined);
  return {
    wanted,
    missing,
    changed: (kind) => {
      const isGone = new Set(missing(kind));
      return wanted(kind).filter((name) => !isGone.has(name) && printOf(kind, name) !== recorded[kind]?.[name]);
    },
    others: found.filter(({ kind, name }) => recorded[kind]?.[name] === undefined),
  };
}
