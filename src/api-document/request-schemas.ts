import type { OpenAPIObject } from '@nestjs/swagger';
import type { JsonSchema } from '../problems/index.js';
import { isReference, type Operation, operationsOf, type Reference } from './document-types.js';

const MERGE_PATCH = 'application/merge-patch+json';

type Schema = JsonSchema | Reference;

/**
 * Tells what requests take from what answers hold. A class may serve both, but a request may say null for what it could
 * leave out and must not have members that nobody knows, while an answer has no such nulls and may get more members. A
 * class `AddressBody` in an answer is the schema `Address`. Patches become schemas of their own, in which everything may
 * be left out, at any depth.
 */
export function separateRequestSchemas(document: OpenAPIObject): void {
  const schemas = document.components?.schemas ?? {};
  for (const [name, schema] of Object.entries(schemas)) {
    if (name.endsWith('Body')) schemas[withoutBody(name)] ??= answering(schema);
    else schemas[name] = answering(schema);
  }
  for (const { operation } of operationsOf(document)) {
    operation.responses = answering(operation.responses);
    derivePatch(schemas, operation);
  }
  for (const [name, schema] of Object.entries(schemas)) {
    if (name.endsWith('Body') && !isReference(schema)) schemas[name] = taking(schema);
  }
}

function withoutBody(name: string): string {
  return name.replace(/Body$/, '');
}

/** A copy that refers to the schemas of answers. */
function answering<T>(value: T): T {
  const text = JSON.stringify(value);
  return JSON.parse(text.replaceAll(/"#\/components\/schemas\/(\w+)Body"/g, '"#/components/schemas/$1"')) as T;
}

/** What may be left out may be null as well; what nobody knows is refused. */
function taking(schema: JsonSchema): JsonSchema {
  const { properties = {}, required = [] } = schema;
  const entries = Object.entries(properties).map(([name, member]): [string, Schema] => [
    name,
    required.includes(name) ? member : orNull(member),
  ]);
  return {
    ...schema,
    properties: Object.fromEntries(entries),
    additionalProperties: schema.additionalProperties ?? false,
  };
}

function orNull(schema: Schema): Schema {
  if (isReference(schema)) return { anyOf: [schema, { type: 'null' }] };
  if (schema.enum) return { ...schema, type: undefined, enum: [...schema.enum, null] };
  const types = new Set([schema.type ?? [], 'null'].flat());
  return { ...schema, type: [...types] as unknown as JsonSchema['type'] };
}

function derivePatch(schemas: Record<string, Schema>, { requestBody }: Operation): void {
  if (!requestBody || isReference(requestBody) || !(MERGE_PATCH in requestBody.content)) return;
  for (const mediaType of Object.values(requestBody.content)) {
    if (!mediaType.schema || !isReference(mediaType.schema)) continue;
    const name = mediaType.schema.$ref.split('/').at(-1) ?? '';
    const schema = schemas[name];
    if (schema && !isReference(schema)) schemas[name] = partial(schemas, schema);
  }
}

/** The bounds of a free object are those of what comes out: a patch may also name members that it takes away. */
function withoutOwnBounds(member: Schema): Schema {
  if (isReference(member) || member.type !== 'object') return member;
  return { ...member, maxProperties: undefined, propertyNames: undefined } as JsonSchema;
}

/** RFC 7396: objects are patched member by member, everything else is replaced as a whole. */
function partial(schemas: Record<string, Schema>, schema: JsonSchema): JsonSchema {
  const entries = Object.entries(schema.properties ?? {}).map(([name, member]): [string, Schema] => {
    const target = isReference(member) ? schemas[member.$ref.split('/').at(-1) ?? ''] : member;
    const isPatched = target && !isReference(target) && target.type === 'object' && target.properties;
    return [name, isPatched ? orNull(taking(partial(schemas, target))) : withoutOwnBounds(member)];
  });
  return { ...schema, properties: Object.fromEntries(entries), required: undefined };
}
