import type { ProblemDefinition } from './define-problem.js';
import type { MemberValues } from './problem-members.js';

type MembersOf<D extends ProblemDefinition> = MemberValues<D['members']>;

export interface DomainErrorOptions {
  /** Whole seconds for `Retry-After`, instead of what the definition says. */
  retryAfterSeconds?: number;
  /** Further headers of the answer, such as `Allow`. */
  headers?: Readonly<Record<string, string>>;
  /** What caused it; goes to the log, never to the client. */
  cause?: unknown;
}

type DomainErrorArguments<D extends ProblemDefinition> =
  Record<string, never> extends MembersOf<D>
    ? [members?: MembersOf<D>, options?: DomainErrorOptions]
    : [members: MembersOf<D>, options?: DomainErrorOptions];

/**
 * An error that a client is told of, as the problem that it is an instance of. `detail` is one or two sentences for a
 * person about this very case; everything in it and in `members` is shown to the caller.
 *
 * Features subclass it where services and tests need a name for the case.
 */
export class DomainError<D extends ProblemDefinition = ProblemDefinition> extends Error {
  override readonly name: string = 'DomainError';
  readonly definition: D;
  readonly detail: string;
  readonly members: MembersOf<D>;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(definition: D, detail: string, ...rest: DomainErrorArguments<D>) {
    const [members, options = {}] = rest;
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.definition = definition;
    this.detail = detail;
    this.members = (members ?? {}) as MembersOf<D>;
    this.retryAfterSeconds = options.retryAfterSeconds ?? definition.retryAfterSeconds;
    this.headers = options.headers ?? {};
  }

  get code(): D['code'] {
    return this.definition.code;
  }
}
