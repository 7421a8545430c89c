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
