import {
  defineProblem,
  DomainError,
  integerMember,
  notFound,
  preconditionRequired,
  type ProblemFault,
  staleVersion,
  textMember,
  textsMember,
  validationFailed,
} from '../problems/index.js';
import { CollisionError, type PostgresError, postgresError, refusalDetail, violates } from '../database/index.js';
import {
  alreadyInState,
  type GuardRefusal,
  illegalTransition,
  ReasonRequired,
  TransitionRoleRequired,
} from '../workflow/index.js';

export const notEditable = defineProblem({
  code: 'not-editable',
  status: 409,
  texts: {
    title: 'Not editable in this state',
    explanation:
      'The change touches fields that can no longer change in the state that the order is in. Lines and shipping are fixed once an order is confirmed, contacts once it is shipped; metadata can always change.',
    whatToDo:
      'Leave out the fields that the problem lists. To change them all the same, cancel the order and place another.',
  },
  kept: true,
  members: { state: textMember(), fields: textsMember() },
  example: { state: 'confirmed', fields: ['lines'] },
});

export const externalRefTaken = defineProblem({
  code: 'external-ref-taken',
  status: 409,
  texts: {
    title: 'External reference taken',
    explanation: 'An order of this channel already has this external reference. Nothing was created.',
    whatToDo: 'Look at the order in orderId: it is most likely the one you meant to create.',
  },
  kept: true,
  members: { orderId: textMember({ format: 'uuid' }) },
  example: { orderId: '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11' },
});

export const quantityExceeded = defineProblem({
  code: 'quantity-exceeded',
  status: 409,
  texts: {
    title: 'Quantity exceeded',
    explanation: 'More units were asked for than the order has left. Nothing was changed.',
    whatToDo: 'Read the order for what is left and ask for no more than that.',
  },
  kept: true,
});

export const paymentInProgress = defineProblem({
  code: 'payment-in-progress',
  status: 409,
  texts: {
    title: 'Payment in progress',
    explanation: 'The order has a live payment, which stands in the way of this step.',
    whatToDo: 'Void or finish the payment first, then try again; the same idempotency key still works.',
  },
});

export const totalMismatch = defineProblem({
  code: 'total-mismatch',
  status: 422,
  texts: {
    title: 'Total mismatch',
    explanation:
      'The total that the caller expects differs from the total of the lines. The order was refused, so that nobody is charged another amount than was shown.',
    whatToDo: 'Compare expected with actual; tax is rounded half up to a minor unit for each line.',
  },
  members: {
    expected: integerMember({ description: 'Minor units, as the request said.' }),
    actual: integerMember({ description: 'Minor units, as the service computed.' }),
  },
  example: { expected: 3581, actual: 3582 },
});

export class OrderNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'There is no such order.');
  }
}

export class CustomerNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'No order has this customer.');
  }
}

export class VersionNotFound extends DomainError<typeof notFound> {
  constructor() {
    super(notFound, 'The order had no such version.');
  }
}

export class IllegalTransition extends DomainError<typeof illegalTransition> {
  constructor(members: { from: string; to: string; allowed: string[] }) {
    const ways =
      members.allowed.length > 0 ? `it can go to ${members.allowed.join(' or ')}` : 'nothing leads out of there';
    super(illegalTransition, `The order is ${members.from} and cannot become ${members.to}: ${ways}.`, members);
  }
}

export class AlreadyInState extends DomainError<typeof alreadyInState> {
  constructor(state: string) {
    super(alreadyInState, `The order is already ${state}.`, { state });
  }
}

export class StaleVersion extends DomainError<typeof staleVersion> {
  constructor(current: number) {
    super(staleVersion, `The order is at version ${current} by now. Read it again and decide anew.`, { current });
  }
}

export class PreconditionRequired extends DomainError<typeof preconditionRequired> {
  constructor() {
    super(preconditionRequired, 'Send the ETag of the version that you read as If-Match.', {});
  }
}

export class NotEditable extends DomainError<typeof notEditable> {
  constructor(state: string, fields: readonly string[]) {
    super(notEditable, `Once an order is ${state}, ${fields.join(', ')} cannot change.`, { state, fields });
  }
}

export class ExternalRefTaken extends DomainError<typeof externalRefTaken> {
  constructor(orderId: string) {
    super(externalRefTaken, 'The channel has an order with this externalRef already.', { orderId });
  }
}

export class TotalMismatch extends DomainError<typeof totalMismatch> {
  constructor(expected: number, actual: number) {
    super(totalMismatch, `The total is ${actual} minor units, not ${expected}. Nothing was stored.`, {
      expected,
      actual,
    });
  }
}

/** The payment that keeps an order as it is. */
interface HoldingPayment {
  paymentId: string;
  status: string;
  /** Of how many events its provider says what can't be so here. */
  conflicts?: number;
}

export class OrderPaymentInProgress extends DomainError<typeof paymentInProgress> {
  constructor({ paymentId, status, conflicts = 0 }: HoldingPayment) {
    const payment = `/v1/payments/${paymentId}`;
    super(
      paymentInProgress,
      conflicts > 0
        ? `The provider of the order's payment says what can't be so here. GET ${payment} shows it; a person has to resolve it.`
        : `The order has a live payment, which is ${status}. ${wayOut(payment, status)}`,
    );
  }
}

function wayOut(payment: string, status: string): string {
  switch (status) {
    case 'authorized':
      return `POST ${payment}/voids lets go of the money; then try again.`;
    case 'captured':
      return `POST ${payment}/refunds gives the money back; then try again.`;
    case 'needs_reconciliation':
      return `Nobody knows yet what the provider did. GET ${payment} shows when it is cleared up.`;
    default:
      return `GET ${payment} shows when that has ended; then void or refund it, and try again.`;
  }
}

export class InvalidOrder extends DomainError<typeof validationFailed> {
  constructor(errors: ProblemFault[]) {
    super(validationFailed, `The body has ${errors.length === 1 ? 'one fault' : `${errors.length} faults`}.`, {
      errors,
    });
  }
}

/** The domain error that a refusal of the database stands for; anything else comes back as it is. */
export function orderError(error: unknown): unknown {
  const refusal = postgresError(error);
  if (!refusal) return error;
  // Another transaction took the reference or number a moment ago: a new attempt sees it, or draws another number.
  const isCollision = violates(refusal, 'orders_number_key') || violates(refusal, 'orders_external_ref_key');
  if (isCollision) return new CollisionError(refusal.message, { cause: error });
  return refusedOrder(refusal) ?? error;
}

/** What a refusal of a step says among what blocks the way: the code and the words of the problem that the step is answered with. */
export function stepRefusal(refusal: PostgresError): GuardRefusal {
  const { code, detail } = refusedOrder(refusal) ?? { code: refusal.code, detail: refusal.message };
  return { code, detail };
}

function refusedOrder(refusal: PostgresError): DomainError | undefined {
  switch (refusal.code) {
    case 'WB010':
      return new IllegalTransition(refusalDetail(refusal));
    case 'WB011':
      return new AlreadyInState(refusalDetail<{ state: string }>(refusal).state);
    case 'WB012':
      return new StaleVersion(refusalDetail<{ current: number }>(refusal).current);
    case 'WB013':
      return new TransitionRoleRequired(refusalDetail<{ roles: string[] }>(refusal).roles);
    case 'WB014':
      return new ReasonRequired();
    case 'WB017':
      return new ExternalRefTaken(refusalDetail<{ orderId: string }>(refusal).orderId);
    case 'WB030':
      return new OrderPaymentInProgress(refusalDetail(refusal));
    default:
      return undefined;
  }
}
