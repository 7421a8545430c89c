import { DomainError } from '../problems/index.js';

export class NothingSealed extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'Nothing of this tenant has been sealed yet.');
  }
}

export class NotSealed extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such event in the log; a new one is sealed within seconds.');
  }
}

export class NeverVerified extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'The history of this tenant was not verified yet. POST to this address starts a verification.');
  }
}

export class NoProof extends DomainError<'invalid-parameter'> {
  constructor(parameter: string, detail: string) {
    super('invalid-parameter', detail, { errors: [{ parameter, detail }] });
  }
}

export class NoVerifierHere extends DomainError<'unavailable'> {
  constructor() {
    super(
      'unavailable',
      'This service has no access to whole histories (SEALER_DATABASE_URL). Use `waybill audit verify`.',
    );
  }
}
