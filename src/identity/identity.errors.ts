import { DomainError } from '../problems/index.js';

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

export class UserNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such user.');
  }
}

export class ApiKeyNotFound extends DomainError<'not-found'> {
  constructor() {
    super('not-found', 'There is no such API key.');
  }
}

export class SubjectTaken extends DomainError<'subject-taken'> {
  constructor(userId: string) {
    super('subject-taken', `User ${userId} has this subject already.`, { userId });
  }
}

export class WouldLockOut extends DomainError<'would-lock-out'> {
  constructor(detail: string) {
    super('would-lock-out', detail);
  }
}

/** A body whose form is right, but not what one of its members says. */
export class UnusableMember extends DomainError<'validation-failed'> {
  constructor(member: string, detail: string) {
    super('validation-failed', detail, { errors: [{ pointer: `/${member}`, detail }] });
  }
}

export class SystemUserIsFixed extends DomainError<'forbidden'> {
  constructor() {
    super('forbidden', 'The system user belongs to the service itself: it is not changed and has no keys.');
  }
}
