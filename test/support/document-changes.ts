import { type ComparedDocuments, type Direction, type LooseSchema, schemaChanges } from './schema-changes.js';

interface LooseParameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  schema?: LooseSchema;
}
type Content = Record<string, { schema?: LooseSchema }>;
interface LooseResponse {
  $ref?: string;
  content?: Content;
  headers?: Record<string, unknown>;
}
interface LooseOperation {
  operationId?: string;
  parameters?: LooseParameter[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, LooseResponse>;
  security?: unknown;
}
/** An OpenAPI document as JSON.parse gives it. */
export interface LooseDocument {
  paths: Record<string, Record<string, LooseOperation>>;
  components?: {
    schemas?: Record<string, LooseSchema>;
    parameters?: Record<string, LooseParameter>;
    responses?: Record<string, LooseResponse>;
  };
}

/**
 * What in `after` breaks a client that was built for `before`, as sentences; empty when nothing does. Additions are fine:
 * operations, optional parameters and members, members of answers, statuses and problems. So clients must ignore members
 * and take problem codes that they don't know.
 */
export function breakingChanges(before: LooseDocument, after: LooseDocument): string[] {
  return Object.entries(before.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) => {
      const place = `${method.toUpperCase()} ${path}`;
      const now = after.paths[path]?.[method];
      return now ? operationChanges({ before, after }, place, operation, now) : [`${place} is gone`];
    }),
  );
}

type Documents = { before: LooseDocument; after: LooseDocument } & ComparedDocuments;

function operationChanges(documents: Documents, place: string, old: LooseOperation, now: LooseOperation): string[] {
  return [
    ...(old.operationId === now.operationId ? [] : [`${place} is called ${now.operationId}, not ${old.operationId}`]),
    ...(JSON.stringify(old.security) === JSON.stringify(now.security) ? [] : [`${place} wants other credentials`]),
    ...parameterChanges(documents, place, old, now),
    ...bodyChanges(documents, place, old, now),
    ...responseChanges(documents, place, old, now),
  ];
}

function parameterChanges(documents: Documents, place: string, old: LooseOperation, now: LooseOperation): string[] {
  const were = parametersOf(documents.before, old);
  const are = parametersOf(documents.after, now);
  const demanded = [...are].filter(([name, { required }]) => required && !were.get(name)?.required);
  return [
    ...demanded.map(([name]) => `${place} requires ${name} now`),
    ...[...were].flatMap(([name, { schema }]) => {
      const same = are.get(name);
      if (!same) return [`${place} no longer knows ${name}`];
      return schemaChanges(documents, 'request', `${place} ${name}`, schema, same.schema);
    }),
  ];
}

function parametersOf({ components }: LooseDocument, { parameters = [] }: LooseOperation): Map<string, LooseParameter> {
  const resolved = parameters.map((one) => components?.parameters?.[one.$ref?.split('/').at(-1) ?? ''] ?? one);
  return new Map(resolved.map((parameter) => [`${parameter.in} parameter ${parameter.name}`, parameter]));
}

function bodyChanges(documents: Documents, place: string, old: LooseOperation, now: LooseOperation): string[] {
  const demanded = now.requestBody?.required && !old.requestBody?.required;
  return [
    ...(demanded ? [`${place} requires a body now`] : []),
    ...contentChanges(documents, 'request', `${place} body`, old.requestBody?.content, now.requestBody?.content),
  ];
}

function responseChanges(documents: Documents, place: string, old: LooseOperation, now: LooseOperation): string[] {
  return Object.entries(old.responses).flatMap(([status, found]) => {
    const was = resolve(documents.before, found);
    const is = now.responses[status] && resolve(documents.after, now.responses[status]);
    // An error that no longer happens disturbs nobody.
    if (!is) return Number(status) < 400 ? [`${place} no longer answers ${status}`] : [];
    const lost = Object.keys(was.headers ?? {}).filter((name) => !(name in (is.headers ?? {})));
    return [
      ...lost.map((name) => `${place} ${status} lacks the header ${name}`),
      ...contentChanges(documents, 'response', `${place} ${status}`, was.content, is.content),
    ];
  });
}

function resolve({ components }: LooseDocument, response: LooseResponse): LooseResponse {
  return components?.responses?.[response.$ref?.split('/').at(-1) ?? ''] ?? response;
}

function contentChanges(
  documents: Documents,
  direction: Direction,
  place: string,
  were: Content = {},
  are: Content = {},
): string[] {
  return Object.entries(were).flatMap(([mediaType, { schema }]) => {
    const same = are[mediaType];
    return same
      ? schemaChanges(documents, direction, place, schema, same.schema)
      : [`${place} is no longer ${mediaType}`];
  });
}
