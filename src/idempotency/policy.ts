/** The settings of this module. */
export interface IdempotencyPolicy {
  /** How long an answer is kept, counted from it; null is for ever. A tenant may have another (idempotency_policies). */
  ttlSeconds: number | null;
  /** How long a worker that is away on a call to another system keeps its key to itself. */
  leaseSeconds: number;
  /** Longest that one call may take; half of the lease unless it says otherwise. The rest is for what follows. */
  callSeconds?: number;
}

export const IDEMPOTENCY_POLICY = Symbol('IDEMPOTENCY_POLICY');

const UNITS: readonly [name: string, seconds: number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** A time to live for people: `24 hours`, `for ever`. */
export function describeTtl(seconds: number | null): string {
  if (seconds === null) return 'for ever';
  if (seconds === 86_400) return '24 hours';
  const [name, size] = UNITS.find(([, size]) => seconds % size === 0 && seconds >= size) ?? ['second', 1];
  const count = seconds / size;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}
