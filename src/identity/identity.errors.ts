import {
  defineProblem,
  DomainError,
  forbidden,
  notFound,
  roleRequired,
  textMember,
  unauthenticated,
  validationFailed,
} from '../problems/index.js';

export const subjectTaken = defineProblem({
  code: 'subject-taken',
  status: 409,
  texts: {
    title: 'Subject taken',
    explanation: 'The tenant already has a user with this subject. Nothing was created.',
    whatToDo: 'Use the user in userId, enable it again if it is disabled, or choose another subject.',
  },
  kept: true,
  members: { userId: textMember({ format: 'uuid' }) },
  example: { userId: '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11' },
});

export const wouldLockOut = defineProblem({
  code: 'would-lock-out',
  status: 409,
  texts: {
    title: 'Would lock out',
    explanation: 'The change would take away the access that the caller is using at this moment. Nothing was changed.',
    whatToDo: 'Let another administrator of the tenant do it, or use other credentials of your own.',
  },
});

export class Unauthenticated extends DomainError<typeof unauthenticated> {
  constructor(detail = 'Send an API key or a token as `Authorization: Bearer …`.') {
    super(unauthenticated, detail);
  }
}

export class RoleRequired extends DomainError<typeof roleRequired> {
  constructor(roles: readonly string[]) {
    super(roleRequired, `This needs one of the roles ${roles.join(', ')}.`, { roles });
  }
}

export class UserNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such user.');
  }
}

export class ApiKeyNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such API key.');
  }
}

export class SubjectTaken extends DomainError<typeof subjectTaken> {
  constructor(userId: string) {
    super(subjectTaken, `User ${userId} has this subject already.`, { userId });
  }
}

export class WouldLockOut extends DomainError<typeof wouldLockOut> {
  constructor(detail: string) {
    super(wouldLockOut, detail);
  }
}

/** A body whose form is right, but not what one of its members says. */
export class UnusableMember extends DomainError<typeof validationFailed> {
  constructor(member: string, detail: string) {
    super(validationFailed, detail, { errors: [{ pointer: `/${member}`, detail }] });
  }
}

export class ErasedForGood extends DomainError<typeof forbidden> {
  constructor() {
    super(forbidden, 'This person was erased: nothing of the user changes any more. Make another user.');
  }
}

export class NoPerson extends DomainError<typeof forbidden> {
  constructor() {
    super(forbidden, 'This user is a service: nothing of it is personal. Disable it instead.');
  }
}

export class SystemUserIsFixed extends DomainError<typeof forbidden> {
  constructor() {
    super(forbidden, 'The system user belongs to the service itself: it is not changed and has no keys.');
  }
}
