import { DomainError } from '../problems/index.js';

export class WorkflowNotFound extends DomainError<'not-found'> {
  constructor(name: string) {
    super('not-found', `There is no workflow ${JSON.stringify(name)}. GET /v1/workflows lists them.`);
  }
}

export class DiagramNotAcceptable extends DomainError<'not-acceptable'> {
  constructor(mediaTypes: readonly string[]) {
    super('not-acceptable', `Diagrams come as ${mediaTypes.join(', ')}.`);
  }
}

export class TransitionRoleRequired extends DomainError<'role-required'> {
  constructor(roles: readonly string[]) {
    super('role-required', `This step needs one of the roles ${roles.join(', ')}.`, { roles });
  }
}

export class ReasonRequired extends DomainError<'reason-required'> {
  constructor() {
    super('reason-required', 'This step needs a reason. Send it as `reason`.');
  }
}
