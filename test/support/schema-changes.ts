/** A JSON Schema as a document holds it, loosely: both documents may be of other versions than the code. */
export interface LooseSchema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, LooseSchema>;
  required?: string[];
  items?: LooseSchema;
  oneOf?: LooseSchema[];
  anyOf?: LooseSchema[];
  pattern?: string;
  format?: string;
  [limit: string]: unknown;
}

/** Requests must take all that they took; answers must hold all that they held. */
export type Direction = 'request' | 'response';

export interface ComparedDocuments {
  before: { components?: { schemas?: Record<string, LooseSchema> } };
  after: { components?: { schemas?: Record<string, LooseSchema> } };
}

const UPPER_LIMITS = ['maximum', 'maxLength', 'maxItems'];
const LOWER_LIMITS = ['minimum', 'minLength', 'minItems'];

/** What a client that was built for `before` would stumble over, as sentences that begin with `place`. */
export function schemaChanges(
  documents: ComparedDocuments,
  direction: Direction,
  place: string,
  before: LooseSchema | undefined,
  after: LooseSchema | undefined,
  seen: ReadonlySet<string> = new Set(),
): string[] {
  if (!before) return [];
  if (!after) return [`${place} has no schema any more`];
  // A further problem under the same status disturbs nobody.
  const same = direction === 'response' && before.$ref && after.oneOf?.find(({ $ref }) => $ref === before.$ref);
  if (same) return schemaChanges(documents, direction, place, before, same, seen);
  const pair = `${before.$ref} ${after.$ref}`;
  if (before.$ref && after.$ref) {
    if (seen.has(pair)) return [];
    seen = new Set([...seen, pair]);
  }
  const [old, now] = [resolve(documents.before, before), resolve(documents.after, after)];
  const deeper = (name: string, one?: LooseSchema, other?: LooseSchema): string[] =>
    schemaChanges(documents, direction, `${place}${name}`, one, other, seen);
  return [
    ...typeChanges(direction, place, old, now),
    ...valueChanges(direction, place, old, now),
    ...(direction === 'request' ? limitChanges(place, old, now) : []),
    ...memberChanges(direction, place, old, now),
    ...Object.entries(old.properties ?? {}).flatMap(([name, schema]) =>
      now.properties?.[name] ? deeper(`.${name}`, schema, now.properties[name]) : [],
    ),
    ...(old.items ? deeper('[]', old.items, now.items) : []),
    ...choiceChanges(documents, direction, place, old, now, seen),
  ];
}

function resolve({ components }: ComparedDocuments['before'], schema: LooseSchema): LooseSchema {
  const name = schema.$ref?.split('/').at(-1);
  return name === undefined ? schema : (components?.schemas?.[name] ?? {});
}

function typeChanges(direction: Direction, place: string, old: LooseSchema, now: LooseSchema): string[] {
  const [were, are] = [[old.type ?? []].flat(), [now.type ?? []].flat()];
  const lost = were.filter((type) => !are.includes(type));
  // Every integer is a number.
  const added = are.filter((type) => !were.includes(type) && !(type === 'integer' && were.includes('number')));
  if (direction === 'request' && are.length > 0 && lost.length > 0)
    return [`${place} no longer takes ${lost.join(', ')}`];
  if (direction === 'response' && were.length > 0 && added.length > 0)
    return [`${place} can now be ${added.join(', ')}`];
  return [];
}

function valueChanges(direction: Direction, place: string, old: LooseSchema, now: LooseSchema): string[] {
  const [were, are] = [valuesOf(old), valuesOf(now)];
  const lost = were?.filter((value) => !are?.includes(value)) ?? [];
  const added = are?.filter((value) => !were?.includes(value)) ?? [];
  if (direction === 'request' && are && (lost.length > 0 || !were)) return [`${place} takes only ${are.join(', ')}`];
  if (direction === 'response' && were && (added.length > 0 || !are)) {
    return [`${place} can now be ${are ? added.join(', ') : 'any value'}`];
  }
  return [];
}

function valuesOf({ enum: values, const: value }: LooseSchema): string[] | undefined {
  const all = value === undefined ? values : [value];
  return all?.map((one) => JSON.stringify(one));
}

function limitChanges(place: string, old: LooseSchema, now: LooseSchema): string[] {
  const upper = UPPER_LIMITS.filter((limit) => Number(now[limit] ?? Infinity) < Number(old[limit] ?? Infinity));
  const lower = LOWER_LIMITS.filter((limit) => Number(now[limit] ?? -Infinity) > Number(old[limit] ?? -Infinity));
  // `int64` is no limit: it says that there is none below.
  const forms = (['pattern', 'format'] as const).filter(
    (form) => now[form] !== undefined && now[form] !== old[form] && now[form] !== 'int64',
  );
  return [...upper, ...lower, ...forms].map(
    (limit) => `${place} is held to ${limit} ${JSON.stringify(now[limit])} now`,
  );
}

function memberChanges(direction: Direction, place: string, old: LooseSchema, now: LooseSchema): string[] {
  const gone = Object.keys(old.properties ?? {}).filter((name) => now.properties && !(name in now.properties));
  const [were, are] = [old.required ?? [], now.required ?? []];
  const demanded = are.filter((name) => !were.includes(name));
  const loosened = were.filter((name) => !are.includes(name) && !gone.includes(name));
  return [
    ...gone.map((name) => `${place}.${name} is gone`),
    ...(direction === 'request' ? demanded.map((name) => `${place}.${name} is required now`) : []),
    ...(direction === 'response' ? loosened.map((name) => `${place}.${name} may be missing now`) : []),
  ];
}

/** Choices are told apart by the schema that they refer to, or by their place. Further problems may always come up. */
function choiceChanges(
  documents: ComparedDocuments,
  direction: Direction,
  place: string,
  old: LooseSchema,
  now: LooseSchema,
  seen: ReadonlySet<string>,
): string[] {
  const [were, are] = [choicesOf(old), choicesOf(now)];
  return [...were].flatMap(([name, schema]) => {
    const same = are.get(name);
    if (same) return schemaChanges(documents, direction, `${place}(${name})`, schema, same, seen);
    return direction === 'request' ? [`${place} no longer takes ${name}`] : [];
  });
}

function choicesOf({ oneOf = [], anyOf = [] }: LooseSchema): Map<string, LooseSchema> {
  return new Map(
    [...oneOf, ...anyOf].map((schema, at) => [schema.$ref?.split('/').at(-1) ?? `choice ${at + 1}`, schema]),
  );
}
