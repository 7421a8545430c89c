import {
  DomainError,
  guardRefused,
  illegalTransition,
  notFound,
  postgresError,
  quantityExceeded,
  refusalDetail,
} from 'waybill/extension';

const FOREIGN_KEY_VIOLATION = '23503';

/** The problem that a refusal of the database stands for; anything else comes back as it is. */
export function returnError(error: unknown): unknown {
  const refusal = postgresError(error);
  switch (refusal?.code) {
    case 'WX001':
      return new DomainError(guardRefused, 'Only what was delivered can be returned.', {
        guards: [{ code: 'order-delivered', detail: refusal.message }],
      });
    case 'WX002':
      return new DomainError(quantityExceeded, `${refusal.message}.`);
    case FOREIGN_KEY_VIOLATION:
      return new DomainError(notFound, 'There is no such order, or no such line.');
    case 'WB010': {
      const members = refusalDetail<{ from: string; to: string; allowed: string[] }>(refusal);
      return new DomainError(illegalTransition, `A return can't go from ${members.from} to ${members.to}.`, members);
    }
    default:
      return error;
  }
}
