import { DomainError } from '../common/index.js';

export class Unauthenticated extends DomainError<'unauthenticated'> {
  constructor(detail = 'Send an API key or a token as `Authorization: Bearer …`.') {
    super('unauthenticated', detail);
  }
}

export class RoleRequired extends DomainError<'role-required'> {
  constructor(roles: readonly string[]) {
    super('role-required', `This needs one of the roles ${roles.join(', ')}.`, { roles });
  }
}
