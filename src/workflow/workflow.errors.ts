import {
  defineProblem,
  DomainError,
  memberOf,
  notAcceptable,
  notFound,
  roleRequired,
  textMember,
  textsMember,
} from '../problems/index.js';

/** A guard that refused, by the guard's own code. */
export interface GuardRefusal {
  code: string;
  detail: string;
}

const guardsMember = memberOf<readonly GuardRefusal[]>({
  type: 'array',
  items: {
    type: 'object',
    required: ['code', 'detail'],
    properties: { code: { type: 'string' }, detail: { type: 'string' } },
  },
});

export const illegalTransition = defineProblem({
  code: 'illegal-transition',
  status: 409,
  texts: {
    title: 'Illegal transition',
    explanation:
      'The workflow has no step from the state the record is in to the state that was asked for. Nothing was changed.',
    whatToDo: 'Read the record and its transitions, and choose one of the states in allowed[].',
  },
  kept: true,
  members: {
    from: textMember({ description: 'The state it is in.' }),
    to: textMember({ description: 'The state that was asked for.' }),
    allowed: textsMember({ description: 'The states that can be reached from here.' }),
  },
  example: { from: 'requested', to: 'received', allowed: ['approved', 'rejected'] },
});

export const alreadyInState = defineProblem({
  code: 'already-in-state',
  status: 409,
  texts: {
    title: 'Already in this state',
    explanation:
      'The record is already in the state that was asked for; most often somebody else was faster. Nothing was changed.',
    whatToDo: 'Treat it as done, or read the history to see who did it.',
  },
  kept: true,
  members: { state: textMember() },
  example: { state: 'approved' },
});

export const guardRefused = defineProblem({
  code: 'guard-refused',
  status: 409,
  texts: {
    title: 'Refused by a guard',
    explanation: 'The step is legal, but a condition that guards it does not hold. Nothing was changed.',
    whatToDo: 'guards[] says which conditions; meet them and try again with a new idempotency key.',
  },
  kept: true,
  members: { guards: guardsMember },
  example: { guards: [{ code: 'stock-reserved', detail: 'TEA-1 is not reserved yet.' }] },
});

export const reasonRequired = defineProblem({
  code: 'reason-required',
  status: 422,
  texts: {
    title: 'Reason required',
    explanation: 'This step needs a reason, which its history will show.',
    whatToDo: 'Send it again with a reason. Keep personal data out of it.',
  },
});

export class WorkflowNotFound extends DomainError<typeof notFound> {
  constructor(name: string) {
    super(notFound, `There is no workflow ${JSON.stringify(name)}. GET /v1/workflows lists them.`);
  }
}

export class DiagramNotAcceptable extends DomainError<typeof notAcceptable> {
  constructor(mediaTypes: readonly string[]) {
    super(notAcceptable, `Diagrams come as ${mediaTypes.join(', ')}.`);
  }
}

export class TransitionRoleRequired extends DomainError<typeof roleRequired> {
  constructor(roles: readonly string[]) {
    super(roleRequired, `This step needs one of the roles ${roles.join(', ')}.`, { roles });
  }
}

export class ReasonRequired extends DomainError<typeof reasonRequired> {
  constructor() {
    super(reasonRequired, 'This step needs a reason. Send it as `reason`.');
  }
}
