import type { OpenAPIObject } from '@nestjs/swagger';
import type { ProblemMembers } from './domain-error.js';
import { type ProblemCode, problemDefinition } from './problem-table.js';

type Schemas = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>;
/** A JSON Schema as an OpenAPI 3.1 document holds it. */
export type JsonSchema = Exclude<Schemas[string], { $ref: string }> & { const?: unknown };

const text: JsonSchema = { type: 'string' };
const texts: JsonSchema = { type: 'array', items: { type: 'string' } };
const integer: JsonSchema = { type: 'integer' };
const errors: JsonSchema = {
  type: 'array',
  description: 'Each fault of a request that could not be used.',
  items: {
    type: 'object',
    required: ['detail'],
    properties: {
      pointer: { type: 'string', description: 'RFC 6901 pointer into the body.' },
      parameter: { type: 'string', description: 'Name of a query or path parameter, or of a header.' },
      detail: { type: 'string' },
      line: { type: 'integer', description: 'Place in a body that could not be read, from 1.' },
      column: { type: 'integer' },
    },
  },
};
const guards: JsonSchema = {
  type: 'array',
  items: { type: 'object', required: ['code', 'detail'], properties: { code: text, detail: text } },
};

/** What each code carries beside the common members. A code that gets members doesn't compile without their schemas. */
const MEMBERS: { [C in keyof ProblemMembers]: { [M in keyof ProblemMembers[C]]-?: JsonSchema } } = {
  'validation-failed': { errors },
  'malformed-body': { errors },
  'unknown-parameter': { errors },
  'invalid-parameter': { errors },
  'invalid-cursor': { errors },
  'role-required': { roles: { ...texts, description: 'Any one of these suffices.' } },
  'illegal-transition': {
    from: { ...text, description: 'The state it is in.' },
    to: { ...text, description: 'The state that was asked for.' },
    allowed: { ...texts, description: 'The states that can be reached from here.' },
  },
  'already-in-state': { state: text },
  'not-editable': { state: text, fields: texts },
  'guard-refused': { guards },
  'total-mismatch': {
    expected: { ...integer, description: 'Minor units, as the request said.' },
    actual: { ...integer, description: 'Minor units, as the service computed.' },
  },
  'external-ref-taken': { orderId: { ...text, format: 'uuid' } },
  'subject-taken': { userId: { ...text, format: 'uuid' } },
  'stale-version': { current: { ...integer, description: 'The version that the record has now.' } },
  'precondition-required': { current: { ...integer, description: 'The version that the record has now.' } },
  'payment-declined': { declineCode: text },
};

const OPTIONAL_MEMBERS: ReadonlySet<string> = new Set(['precondition-required.current']);

/** The name of a code's schema in the OpenAPI document: `illegal-transition` is `IllegalTransitionProblem`. */
export function problemSchemaName(code: ProblemCode): string {
  return `${code.replaceAll(/(?:^|-)(\w)/g, (_match, letter: string) => letter.toUpperCase())}Problem`;
}

/** The schema of one code's problem: RFC 9457's members, ours, and the code's own. Closed in `code` and `status`. */
export function problemSchema(code: ProblemCode): JsonSchema {
  const { status, title, explanation } = problemDefinition(code);
  const own: Record<string, JsonSchema> = code in MEMBERS ? MEMBERS[code as keyof typeof MEMBERS] : {};
  const required = Object.keys(own).filter((member) => !OPTIONAL_MEMBERS.has(`${code}.${member}`));
  return {
    type: 'object',
    title,
    description: explanation,
    required: ['type', 'title', 'status', 'detail', 'code', 'requestId', ...required],
    properties: {
      type: { type: 'string', format: 'uri-reference', description: 'A page that says what happened and what to do.' },
      title: { type: 'string' },
      status: { type: 'integer', const: status } as JsonSchema,
      detail: { type: 'string', description: 'About this very case, for a person.' },
      instance: { type: 'string', format: 'uri-reference', description: 'Path of the request.' },
      code: { type: 'string', const: code, description: 'Stable: what programs decide by.' } as JsonSchema,
      requestId: { type: 'string', description: 'Finds the request in the log.' },
      ...own,
    },
  };
}
