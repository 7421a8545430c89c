import type { components } from './schema.js';

type Schemas = components['schemas'];

/** Every problem that the API documents, told apart by `code`. A newer service may send others. */
export type Problem = {
  [Name in keyof Schemas]: Name extends `${string}Problem` ? Schemas[Name] : never;
}[keyof Schemas];
export type ProblemCode = Problem['code'];
export type ProblemOf<Code extends ProblemCode> = Extract<Problem, { code: Code }>;

/** The service refused, or failed. */
export class WaybillError extends Error {
  override readonly name = 'WaybillError';

  constructor(
    readonly status: number,
    /** Stable; of a code that this client was not built for, too. Null when something between answered without one. */
    readonly code: string | null,
    /** RFC 9457. Null when the answer was no problem document. */
    readonly problem: Problem | null,
    message: string,
    /** Finds the request in the service's log. */
    readonly requestId: string | null,
  ) {
    super(message);
  }

  /** Narrows the problem to the members of one code: `if (error.is('illegal-transition')) error.problem.allowed`. */
  is<Code extends ProblemCode>(code: Code): this is this & { code: Code; problem: ProblemOf<Code> } {
    return this.code === code && this.problem !== null;
  }
}

export function toWaybillError(response: Response, body: unknown): WaybillError {
  const problem = isProblem(body) ? body : null;
  const message = problem ? `${problem.title}: ${problem.detail}` : `The service answered ${response.status}`;
  const requestId = problem?.requestId ?? response.headers.get('x-request-id');
  return new WaybillError(response.status, problem?.code ?? null, problem, message, requestId);
}

function isProblem(body: unknown): body is Problem {
  return typeof body === 'object' && body !== null && 'code' in body && typeof body.code === 'string';
}
