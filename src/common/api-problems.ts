import { applyDecorators } from '@nestjs/common';
import {
  ApiExtraModels,
  ApiProperty,
  ApiPropertyOptional,
  ApiResponse,
  getSchemaPath,
  type OpenAPIObject,
} from '@nestjs/swagger';
import { PROBLEM_MEDIA_TYPE } from './problem.js';
import { type ProblemCode, problemDefinition } from './problem-table.js';

class ProblemFaultDto {
  @ApiPropertyOptional({ example: '/lines/0/quantity', description: 'RFC 6901 pointer into the body.' })
  pointer?: string;
  @ApiPropertyOptional({ example: 'limit', description: 'Name of a query or path parameter.' })
  parameter?: string;
  @ApiProperty({ example: 'quantity must not be less than 1' })
  detail!: string;
  @ApiPropertyOptional({ type: 'integer', description: 'Place in a body that could not be read, from 1.' })
  line?: number;
  @ApiPropertyOptional({ type: 'integer' })
  column?: number;
}

/** RFC 9457. Codes bring members of their own; the page at `type` tells which. */
export class ProblemDto {
  @ApiProperty({ format: 'uri-reference', description: 'A page that says what happened and what to do.' })
  type!: string;
  @ApiProperty()
  title!: string;
  @ApiProperty({ type: 'integer' })
  status!: number;
  @ApiProperty({ description: 'About this very case, for a person.' })
  detail!: string;
  @ApiPropertyOptional({ format: 'uri-reference' })
  instance?: string;
  @ApiProperty({ description: 'Stable: what programs decide by.' })
  code!: string;
  @ApiProperty({ description: 'Finds the request in the log.' })
  requestId!: string;
  @ApiPropertyOptional({ type: [ProblemFaultDto], description: 'Each fault of a request that could not be used.' })
  errors?: ProblemFaultDto[];
}

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
    ApiExtraModels(ProblemDto),
    ...[...byStatus].map(([status, possible]) => ApiResponse({ status, ...problemResponse(status, possible) })),
  );
}

type Responses = OpenAPIObject['paths'][string] extends { post?: { responses: infer R } } ? R : never;

/** Adds problems to the responses of an operation in a finished document, beside those it has for the same status. */
export function documentProblems(responses: Responses, codes: readonly ProblemCode[]): void {
  for (const [status, added] of groupByStatus(codes)) {
    responses[status] = problemResponse(status, [...new Set([...codesOf(responses[status]), ...added])]);
  }
}

function problemResponse(status: number, possible: readonly ProblemCode[]) {
  const own = {
    type: 'object' as const,
    properties: { code: { type: 'string' as const, enum: [...possible] }, status: { enum: [status] } },
  };
  const allOf: [{ $ref: string }, typeof own] = [{ $ref: getSchemaPath(ProblemDto) }, own];
  return {
    description: possible.map((code) => `\`${code}\`: ${problemDefinition(code).title}`).join('\n\n'),
    content: { [PROBLEM_MEDIA_TYPE]: { schema: { allOf } } },
  };
}

/** The codes of a response that `problemResponse` made. */
function codesOf(response: unknown): readonly ProblemCode[] {
  const { content } = (response ?? {}) as Partial<ReturnType<typeof problemResponse>>;
  return content?.[PROBLEM_MEDIA_TYPE]?.schema.allOf[1].properties.code.enum ?? [];
}

function groupByStatus(codes: readonly ProblemCode[]): Map<number, ProblemCode[]> {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of new Set(codes)) {
    const { status } = problemDefinition(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}
