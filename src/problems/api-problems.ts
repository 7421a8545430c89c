import { applyDecorators } from '@nestjs/common';
import { ApiResponse, type ApiResponseOptions, type OpenAPIObject } from '@nestjs/swagger';
import { problemExample } from './problem-page.js';
import { problemSchemaName } from './problem-schemas.js';
import { isProblemCode, type ProblemCode, problemDefinition } from './problem-table.js';
import { PROBLEM_MEDIA_TYPE } from './problem.js';

/** What any route can answer. */
const EVERYWHERE: readonly ProblemCode[] = [
  'unknown-parameter',
  'unauthenticated',
  'role-required',
  'not-acceptable',
  'rate-limited',
  'internal-error',
  'unavailable',
];

/** Documents the problems that a route can answer, besides those that every route can. */
export function ApiProblems(...codes: readonly ProblemCode[]): MethodDecorator & ClassDecorator {
  const byStatus = groupByStatus([...codes, ...EVERYWHERE]);
  return applyDecorators(
    ...[...byStatus].map(([status, possible]) => ApiResponse({ status, ...problemResponse(possible) })),
  );
}

type Responses = NonNullable<OpenAPIObject['paths'][string]['post']>['responses'];

/** Adds problems to the responses of an operation in a finished document, beside those it has for the same status. */
export function documentProblems(responses: Responses, codes: readonly ProblemCode[]): void {
  for (const [status, added] of groupByStatus(codes)) {
    const all = new Set([...codesOf(responses[status]), ...added]);
    Object.assign(responses, { [status]: problemResponse([...all]) });
  }
}

/** The codes of a response that `problemResponse` made. */
function codesOf(response: unknown): ProblemCode[] {
  const { content } = (response ?? {}) as { content?: Record<string, { examples?: object }> };
  return Object.keys(content?.[PROBLEM_MEDIA_TYPE]?.examples ?? {}).filter(isProblemCode);
}

function groupByStatus(codes: readonly ProblemCode[]): Map<number, ProblemCode[]> {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of new Set(codes)) {
    const { status } = problemDefinition(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}

/** The response of one status as the OpenAPI document has it; its schemas are added to the finished document. */
function problemResponse(codes: readonly ProblemCode[]): ApiResponseOptions {
  const schemas = codes.map((code) => ({ $ref: `#/components/schemas/${problemSchemaName(code)}` }));
  const mapping = Object.fromEntries(codes.map((code, at) => [code, schemas[at]?.$ref ?? '']));
  const [first] = schemas;
  return {
    description: codes.map((code) => `\`${code}\`: ${problemDefinition(code).title}`).join('\n\n'),
    content: {
      [PROBLEM_MEDIA_TYPE]: {
        schema:
          schemas.length === 1 && first ? first : { oneOf: schemas, discriminator: { propertyName: 'code', mapping } },
        examples: Object.fromEntries(
          codes.map((code) => [code, { summary: problemDefinition(code).title, value: problemExample(code) }]),
        ),
      },
    },
  };
}
