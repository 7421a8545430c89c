import { byKey } from '../../src/database/schema/read-schema.js';
import { keyOf, type SchemaKind, type SchemaObject } from '../../src/database/schema/schema-object.js';

/** What the statements of a step do, in this order. */
export interface Difference {
  drop: SchemaObject[];
  /** Parts of tables that are there before and after: how rows come from one form to the other only a person knows. */
  alter: { before?: SchemaObject; after?: SchemaObject }[];
  create: SchemaObject[];
}

/** Changing these takes a look at what they hold, or at who uses them. */
const ALTERED: ReadonlySet<SchemaKind> = new Set(['schema', 'type', 'sequence', 'table', 'domain']);

/**
 * What brings a schema from one form to another.
 *
 * @param dependentsOf what can't stay when these go, both by kind and name, in the schema before
 */
export async function differenceBetween(
  before: readonly SchemaObject[],
  after: readonly SchemaObject[],
  dependentsOf: (keys: readonly string[]) => Promise<readonly string[]>,
): Promise<Difference> {
  const [old, now] = [byKey(before), byKey(after)];
  const alter: Difference['alter'] = [];
  const drop = new Map<string, SchemaObject>();
  const create = new Map<string, SchemaObject>();

  for (const [key, object] of old) {
    const next = now.get(key);
    if (next && isSame(object, next)) continue;
    if (needsPerson(object, old, now) || (next && ALTERED.has(object.kind))) {
      alter.push({ before: object, after: next });
    } else {
      if (!next || !isReplaceable(object, next)) drop.set(key, object);
      if (next) create.set(key, next);
    }
  }
  for (const [key, object] of now) {
    if (old.has(key)) continue;
    if (needsPerson(object, old, now)) alter.push({ after: object });
    else create.set(key, object);
  }

  const going = [...drop.keys()].filter((key) => key.startsWith('view ') || key.startsWith('function '));
  for (const key of going.length > 0 ? await dependentsOf(going) : []) {
    const [object, next] = [old.get(key), now.get(key)];
    if (!object || !next || object.kind === 'table') continue;
    drop.set(key, object);
    create.set(key, next);
  }
  for (const object of after) if (isPartOf(object, [...drop.values()])) create.set(keyOf(object), object);
  const gone = [...drop.values()];
  return {
    drop: gone.filter((object) => !goesWith(object, gone)).toSorted((a, b) => b.made - a.made),
    alter,
    create: [...create.values()].toSorted((a, b) => a.made - b.made),
  };
}

/** These may refer to something that is younger than their table, and hold it there. */
const REFERRING: ReadonlySet<SchemaKind> = new Set(['trigger', 'policy', 'constraint']);

export function isSame(a: SchemaObject, b: SchemaObject): boolean {
  return a.create === b.create && a.owner === b.owner;
}

/** A constraint of a table that there is before and after: its rows may have to be mended, or looked through, first. */
function needsPerson({ kind, of }: SchemaObject, old: Map<string, unknown>, now: Map<string, unknown>): boolean {
  return kind === 'constraint' && of.startsWith('table ') && old.has(of) && now.has(of);
}

/** A function that is called and answers as before. */
function isReplaceable(object: SchemaObject, next: SchemaObject): boolean {
  const head = ({ create }: SchemaObject): string => create.slice(0, create.indexOf('\n LANGUAGE '));
  return object.kind === 'function' && object.owner === next.owner && head(object) === head(next);
}

/** Whether an object goes when one of these does, and has to be made again with it. */
function isPartOf(object: SchemaObject, wholes: readonly SchemaObject[]): boolean {
  return wholes.some(
    (whole) =>
      (object.of === keyOf(whole) && keyOf(object) !== keyOf(whole)) ||
      (object.kind === 'firing' && whole.kind === 'trigger' && object.name === whole.name) ||
      (object.kind === 'comment' && object.name === `${whole.kind.toUpperCase()} ${whole.name}`),
  );
}

/** Whether the statement that drops one of these takes the object along, so that it needs none of its own. */
function goesWith(object: SchemaObject, gone: readonly SchemaObject[]): boolean {
  const schemas = gone.filter(({ kind }) => kind === 'schema');
  const isInside = schemas.some(({ name }) => object.of.includes(` ${name}.`) || object.of === `schema ${name}`);
  if (isInside) return object.kind !== 'schema';
  return isPartOf(object, gone) && !REFERRING.has(object.kind);
}
