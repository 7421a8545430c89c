import { applyDecorators } from '@nestjs/common';
import { ApiResponse, type ApiResponseOptions, type OpenAPIObject } from '@nestjs/swagger';
import { type ProblemDefinition, problemOfCode } from './define-problem.js';
import { problemExample } from './problem-page.js';
import { problemSchemaName } from './problem-schemas.js';
import { PROBLEM_MEDIA_TYPE } from './problem.js';

/**
 * Documents the problems that a route can answer because of what it does. What follows from its method, its parameters, its
 * body and its need of credentials stands in the document already (`src/api-document/general-answers.ts`).
 */
export function ApiProblems(...problems: readonly ProblemDefinition[]): MethodDecorator & ClassDecorator {
  const byStatus = groupByStatus(problems);
  return applyDecorators(
    ...[...byStatus].map(([status, possible]) => ApiResponse({ status, ...problemResponse(possible) })),
  );
}

type Responses = NonNullable<OpenAPIObject['paths'][string]['post']>['responses'];

/** Adds problems to the responses of an operation in a finished document, beside those it has for the same status. */
export function documentProblems(responses: Responses, problems: readonly ProblemDefinition[]): void {
  for (const [status, added] of groupByStatus(problems)) {
    const all = new Set([...problemsOf(responses[status]), ...added]);
    Object.assign(responses, { [status]: problemResponse([...all]) });
  }
}

/** The problems of a response that `problemResponse` made. */
export function problemsOf(response: unknown): ProblemDefinition[] {
  const { content } = (response ?? {}) as { content?: Record<string, { examples?: object }> };
  return Object.keys(content?.[PROBLEM_MEDIA_TYPE]?.examples ?? {}).flatMap((code) => problemOfCode(code) ?? []);
}

function groupByStatus(problems: readonly ProblemDefinition[]): Map<number, ProblemDefinition[]> {
  const byStatus = new Map<number, ProblemDefinition[]>();
  for (const problem of new Set(problems)) {
    byStatus.set(problem.status, [...(byStatus.get(problem.status) ?? []), problem]);
  }
  return byStatus;
}

/** The response of one status as the OpenAPI document has it; its schemas are added to the finished document. */
function problemResponse(problems: readonly ProblemDefinition[]): ApiResponseOptions {
  const schemas = problems.map((problem) => ({ $ref: `#/components/schemas/${problemSchemaName(problem)}` }));
  const mapping = Object.fromEntries(problems.map(({ code }, at) => [code, schemas[at]?.$ref ?? '']));
  const [first] = schemas;
  return {
    description: problems.map(({ code, texts }) => `\`${code}\`: ${texts.title}`).join('\n\n'),
    content: {
      [PROBLEM_MEDIA_TYPE]: {
        schema:
          schemas.length === 1 && first ? first : { oneOf: schemas, discriminator: { propertyName: 'code', mapping } },
        examples: Object.fromEntries(
          problems.map((problem) => [problem.code, { summary: problem.texts.title, value: problemExample(problem) }]),
        ),
      },
    },
  };
}
