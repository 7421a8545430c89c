/**
 * What became of a request with an idempotency key.
 *
 * - `executed`: it was the first, and its answer is kept
 * - `replayed`: the kept answer was given again
 * - `refused`: a refusal that the key keeps, such as an illegal transition
 * - `in-flight`, `reused`, `invalid`, `missing`, `erased`: the problem of that name
 * - `released`: it failed in a way that is not kept; the same key works again
 */
export type IdempotencyOutcome =
  'executed' | 'replayed' | 'refused' | 'in-flight' | 'reused' | 'invalid' | 'missing' | 'erased' | 'released';

export const IDEMPOTENCY_OUTCOMES: readonly IdempotencyOutcome[] = [
  'executed',
  'replayed',
  'refused',
  'in-flight',
  'reused',
  'invalid',
  'missing',
  'erased',
  'released',
];

/** By the code of the problem. */
const BY_PROBLEM: ReadonlyMap<string, IdempotencyOutcome> = new Map([
  ['idempotency-key-in-flight', 'in-flight'],
  ['idempotency-key-reused', 'reused'],
  ['idempotency-key-invalid', 'invalid'],
  ['idempotency-key-missing', 'missing'],
  ['answer-erased', 'erased'],
]);

export interface AnsweredRequest {
  hasKey: boolean;
  replayed: boolean;
  status: number;
  /** Code of the problem that the error filter answered with. A refusal that a key keeps is answered without the filter. */
  problem: string | undefined;
}

/** Read off the answer, so that the idempotency module needn't know who counts. Undefined for a request without a key. */
export function idempotencyOutcome({
  hasKey,
  replayed,
  status,
  problem,
}: AnsweredRequest): IdempotencyOutcome | undefined {
  const byProblem = problem && BY_PROBLEM.get(problem);
  if (byProblem) return byProblem;
  if (!hasKey) return undefined;
  if (replayed) return 'replayed';
  if (problem) return 'released';
  return status < 400 ? 'executed' : 'refused';
}
