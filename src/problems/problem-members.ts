import type { OpenAPIObject } from '@nestjs/swagger';

type Schemas = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>;
/** A JSON Schema as an OpenAPI 3.1 document holds it. */
export type JsonSchema = Exclude<Schemas[string], { $ref: string }> & { const?: unknown };

/** A member that a problem carries beside the common ones: its schema, and with it its type. */
export interface ProblemMember<Value, IsOptional extends boolean = false> {
  readonly schema: JsonSchema;
  readonly isOptional: IsOptional;
  /** For the compiler only; never set. */
  readonly value?: Value;
}

export type ProblemMembers = Readonly<Record<string, ProblemMember<unknown, boolean>>>;

type Value<M> = M extends ProblemMember<infer V, boolean> ? V : never;

/** What an error brings for these members. */
export type MemberValues<M extends ProblemMembers> = [keyof M] extends [never]
  ? Record<string, never>
  : { readonly [K in keyof M as M[K]['isOptional'] extends true ? never : K]: Value<M[K]> } & {
      readonly [K in keyof M as M[K]['isOptional'] extends true ? K : never]?: Value<M[K]>;
    };

/** A member of any type: `memberOf<readonly Fault[]>({ type: 'array', … })`. The schema is held against nothing. */
export function memberOf<T>(schema: JsonSchema): ProblemMember<T> {
  return { schema, isOptional: false };
}

export function textMember(more: Partial<JsonSchema> = {}): ProblemMember<string> {
  return memberOf({ type: 'string', ...more });
}

export function textsMember(more: Partial<JsonSchema> = {}): ProblemMember<readonly string[]> {
  return memberOf({ type: 'array', items: { type: 'string' }, ...more });
}

export function integerMember(more: Partial<JsonSchema> = {}): ProblemMember<number> {
  return memberOf({ type: 'integer', ...more });
}

/** A member that an error may leave out. */
export function optionalMember<T>({ schema }: ProblemMember<T>): ProblemMember<T, true> {
  return { schema, isOptional: true };
}
