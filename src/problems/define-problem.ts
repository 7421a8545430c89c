import type { MemberValues, ProblemMembers } from './problem-members.js';

/** What is said of a problem to people: on its page and in the API document. */
export interface ProblemTexts {
  readonly title: string;
  /** What happened, in a sentence or three; the first also stands as `detail` of the example. */
  readonly explanation: string;
  /** What the caller does about it. */
  readonly whatToDo: string;
}

/**
 * A kind of error that clients are told of. Its code is a promise to them: it is never renamed or given another status.
 */
export interface ProblemDefinition<Code extends string = string, Members extends ProblemMembers = ProblemMembers> {
  readonly code: Code;
  readonly status: number;
  readonly texts: ProblemTexts;
  /** Whether an idempotency key keeps the answer and gives it again; after anything else the same key works again. */
  readonly kept: boolean;
  /** Seconds that `Retry-After` says when whoever raises the problem doesn't know better. */
  readonly retryAfterSeconds?: number;
  /** What it carries beside the members that every problem has. */
  readonly members: Members;
  /** Those members as an error might bring them. */
  readonly example: MemberValues<Members>;
}

interface WhatIsSaid<Code extends string> {
  code: Code;
  status: number;
  texts: ProblemTexts;
  kept?: boolean;
  retryAfterSeconds?: number;
}

const definitions = new Map<string, ProblemDefinition>();

/**
 * Says all there is to say of a problem, once: an error is made of the definition (`new DomainError(notFound, …)`), and the
 * types of its members, its page below `/problems` and its schema in the API document follow from it.
 *
 * @throws Error when another problem has the code already
 */
export function defineProblem<const Code extends string>(said: WhatIsSaid<Code>): ProblemDefinition<Code, {}>;
export function defineProblem<const Code extends string, Members extends ProblemMembers>(
  said: WhatIsSaid<Code> & { members: Members; example: MemberValues<Members> },
): ProblemDefinition<Code, Members>;
export function defineProblem(
  said: WhatIsSaid<string> & { members?: ProblemMembers; example?: object },
): ProblemDefinition {
  if (definitions.has(said.code)) throw new Error(`There are two definitions of the problem ${said.code}`);
  const definition = { kept: false, members: {}, example: {}, ...said } as ProblemDefinition;
  definitions.set(said.code, definition);
  return definition;
}

/** Every problem that the loaded modules define, by status and code. */
export function problemDefinitions(): readonly ProblemDefinition[] {
  return [...definitions.values()].toSorted((a, b) => a.status - b.status || (a.code < b.code ? -1 : 1));
}

export function problemOfCode(code: string): ProblemDefinition | undefined {
  return definitions.get(code);
}
