import type { ProblemDefinition } from './define-problem.js';
import type { JsonSchema } from './problem-members.js';

/** The name of a problem's schema in the OpenAPI document: `illegal-transition` is `IllegalTransitionProblem`. */
export function problemSchemaName({ code }: ProblemDefinition): string {
  return `${code.replaceAll(/(?:^|-)(\w)/g, (_match, letter: string) => letter.toUpperCase())}Problem`;
}

/** The schema of a problem: RFC 9457's members, ours, and its own. Closed in `code` and `status`. */
export function problemSchema({ code, status, texts, members }: ProblemDefinition): JsonSchema {
  const own = Object.entries(members);
  const required = own.flatMap(([name, { isOptional }]) => (isOptional ? [] : [name]));
  return {
    type: 'object',
    title: texts.title,
    description: texts.explanation,
    required: ['type', 'title', 'status', 'detail', 'code', 'requestId', ...required],
    properties: {
      type: { type: 'string', format: 'uri-reference', description: 'A page that says what happened and what to do.' },
      title: { type: 'string' },
      status: { type: 'integer', const: status } as JsonSchema,
      detail: { type: 'string', description: 'About this very case, for a person.' },
      instance: { type: 'string', format: 'uri-reference', description: 'Path of the request.' },
      code: { type: 'string', const: code, description: 'Stable: what programs decide by.' } as JsonSchema,
      requestId: { type: 'string', description: 'Finds the request in the log.' },
      ...Object.fromEntries(own.map(([name, { schema }]) => [name, schema])),
    },
  };
}
