import type { ProblemCode } from './problem-table.js';

/** One fault. `pointer` is an RFC 6901 pointer into the body, `parameter` the name of a query or path parameter. */
export interface ProblemFault {
  pointer?: string;
  parameter?: string;
  detail: string;
  /** 1-based place in the body's text, for a body that could not be read. */
  line?: number;
  column?: number;
}

/** A guard that refused, by the guard's own code. */
export interface GuardRefusal {
  code: string;
  detail: string;
}

/** The members that a code's problem carries beside the common ones. A code that isn't here has none. */
export interface ProblemMembers {
  'validation-failed': { errors: readonly ProblemFault[] };
  'malformed-body': { errors: readonly ProblemFault[] };
  'unknown-parameter': { errors: readonly ProblemFault[] };
  'invalid-parameter': { errors: readonly ProblemFault[] };
  'invalid-cursor': { errors: readonly ProblemFault[] };
  'role-required': { roles: readonly string[] };
  'illegal-transition': { from: string; to: string; allowed: readonly string[] };
  'already-in-state': { state: string };
  'not-editable': { state: string; fields: readonly string[] };
  'guard-refused': { guards: readonly GuardRefusal[] };
  /** Minor units of the order's currency. */
  'total-mismatch': { expected: number; actual: number };
  'external-ref-taken': { orderId: string };
  'subject-taken': { userId: string };
  'stale-version': { current: number };
  /** `current` when the record was already read. */
  'precondition-required': { current?: number };
  'payment-declined': { declineCode: string };
}

/** The members of one code; `{}` for codes without. */
export type MembersOf<C extends ProblemCode> = C extends keyof ProblemMembers
  ? ProblemMembers[C]
  : Record<string, never>;

export interface DomainErrorOptions {
  /** Whole seconds for `Retry-After`, instead of the code's default. */
  retryAfterSeconds?: number;
  /** Further headers of the answer, such as `Allow`. */
  headers?: Readonly<Record<string, string>>;
  /** What caused it; goes to the log, never to the client. */
  cause?: unknown;
}

type DomainErrorArguments<C extends ProblemCode> =
  Record<string, never> extends MembersOf<C>
    ? [members?: MembersOf<C>, options?: DomainErrorOptions]
    : [members: MembersOf<C>, options?: DomainErrorOptions];

/**
 * An error that a client is told of, as the problem of its code. `detail` is one or two sentences for a person about
 * this very case; everything in it and in `members` is shown to the caller.
 *
 * Features subclass it, so that services and tests can speak of `OrderNotFound` rather than of a code.
 */
export class DomainError<C extends ProblemCode = ProblemCode> extends Error {
  override readonly name: string = 'DomainError';
  readonly code: C;
  readonly detail: string;
  readonly members: MembersOf<C>;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: C, detail: string, ...rest: DomainErrorArguments<C>) {
    const [members, options = {}] = rest;
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.detail = detail;
    this.members = (members ?? {}) as MembersOf<C>;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.headers = options.headers ?? {};
  }
}
