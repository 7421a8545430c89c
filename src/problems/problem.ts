import { DomainError } from './domain-error.js';
import { fromForeignError } from './foreign-errors.js';
import { internalError } from './general-problems.js';

export const PROBLEM_MEDIA_TYPE = 'application/problem+json';

/** Where a problem occurred; the same three values everywhere a request's problem is rendered. */
export interface ProblemContext {
  /** Path of the request, without the query: that may hold what a log or a screenshot shouldn't. */
  instance?: string;
  requestId: string;
  /** Absolute base of the `type` URIs, without a slash at its end; without it they are relative references. */
  typeBase?: string;
}

/** The body of RFC 9457, with the members that every problem of this service has. */
export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance?: string;
  /** Stable: what programs decide by. */
  code: string;
  requestId: string;
  [member: string]: unknown;
}

export interface Problem {
  status: number;
  /** Lower-case names. */
  headers: Record<string, string>;
  body: ProblemBody;
}

/**
 * The one mapper from any error to what the client is told. It never throws, and of an error that it doesn't know it
 * tells the request id and nothing else.
 */
export function toProblem(error: unknown, context: ProblemContext): Problem {
  const domainError = toDomainError(error);
  const { definition, members, headers, retryAfterSeconds: seconds } = domainError;
  const { status } = definition;
  return {
    status,
    headers: {
      ...lowerCaseNames(headers),
      'content-type': PROBLEM_MEDIA_TYPE,
      'cache-control': 'no-store',
      ...(seconds === undefined ? {} : { 'retry-after': String(Math.max(0, Math.ceil(seconds))) }),
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    },
    body: {
      ...commonMembers(domainError, context),
      ...withoutCommonNames(members),
    },
  };
}

/** The bytes of a problem's body, as the filter sends them and the idempotency store keeps them. */
export function problemBytes(problem: Problem): Buffer {
  return Buffer.from(JSON.stringify(problem.body), 'utf8');
}

/** The domain error that an error is or stands for; `internal-error` for everything unknown. */
export function toDomainError(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  return (
    fromForeignError(error) ??
    new DomainError(internalError, 'An internal error occurred. The request id finds it in the log.', undefined, {
      cause: error,
    })
  );
}

/** Whether an idempotency key keeps the answer to this error. */
export function isKeptUnderKey(error: unknown): boolean {
  return toDomainError(error).definition.kept;
}

function commonMembers({ definition, detail }: DomainError, context: ProblemContext): ProblemBody {
  return {
    type: `${context.typeBase ?? ''}/problems/${definition.code}`,
    title: definition.texts.title,
    status: definition.status,
    detail,
    ...(context.instance === undefined ? {} : { instance: context.instance }),
    code: definition.code,
    requestId: context.requestId,
  };
}

const COMMON_NAMES = new Set(['type', 'title', 'status', 'detail', 'instance', 'code', 'requestId']);

function withoutCommonNames(members: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([name]) => !COMMON_NAMES.has(name)));
}

function lowerCaseNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
