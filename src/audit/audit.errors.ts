import { DomainError, invalidParameter, notFound, unavailable } from '../problems/index.js';

export class NothingSealed extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'Nothing of this tenant has been sealed yet.');
  }
}

export class NotSealed extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such event in the log; a new one is sealed within seconds.');
  }
}

/** The same for a tenant that there is not, a log that is not public, and what is not in it: none tells of the others. */
export class LogNotPublic extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no public log with this at this address.');
  }
}

/** The log was restored to an older state, and goes on under another name and address. */
export class LogHasEnded extends DomainError<typeof notFound> {
  constructor(tenantId: number, generation: number) {
    super(
      notFound,
      `This log has ended: it was restored to an older state and goes on at /logs/${tenantId}/${generation}/.`,
    );
  }
}

/** The position is beyond the log: it was restored to an older state, or the position is of another log. */
export class BeyondLog extends DomainError<typeof invalidParameter> {
  /** @param size events in the log */
  constructor(after: number, size: number) {
    const detail =
      size === 0
        ? `The log has no events, and ${after} is beyond it.`
        : `The log has ${size} events; ${after} is beyond its last one, ${size - 1}.`;
    super(
      invalidParameter,
      `${detail} A log that was restored to an older state is shorter than before: see docs/audit.md, "Feeds".`,
      {
        errors: [{ parameter: 'after', detail }],
      },
    );
  }
}

export class NeverVerified extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'The history of this tenant was not verified yet. POST to this address starts a verification.');
  }
}

export class NoProof extends DomainError<typeof invalidParameter> {
  constructor(parameter: string, detail: string) {
    super(invalidParameter, detail, { errors: [{ parameter, detail }] });
  }
}

export class NoVerifierHere extends DomainError<typeof unavailable> {
  constructor() {
    super(
      unavailable,
      'This service has no access to whole histories (SEALER_DATABASE_URL). Use `waybill audit verify`.',
    );
  }
}
