import { DomainError } from '../problems/index.js';

/** Where people read how keys work. */
export const IDEMPOTENCY_PAGE = '/docs/idempotency';

const HELP = { headers: { link: `<${IDEMPOTENCY_PAGE}>; rel="help"; type="text/html"` } };

export class IdempotencyKeyMissing extends DomainError<'idempotency-key-missing'> {
  constructor() {
    super(
      'idempotency-key-missing',
      `This operation needs an Idempotency-Key header; ${IDEMPOTENCY_PAGE} says how to make one.`,
      undefined,
      HELP,
    );
  }
}

export class IdempotencyKeyInvalid extends DomainError<'idempotency-key-invalid'> {
  constructor() {
    super(
      'idempotency-key-invalid',
      `Idempotency-Key must be one key of 1 to 255 visible ASCII characters without a comma; see ${IDEMPOTENCY_PAGE}.`,
      undefined,
      HELP,
    );
  }
}

export class IdempotencyKeyReused extends DomainError<'idempotency-key-reused'> {
  constructor() {
    super(
      'idempotency-key-reused',
      'This key was used for another request: method, address, caller, If-Match or body differ.',
      undefined,
      HELP,
    );
  }
}

export class IdempotencyKeyInFlight extends DomainError<'idempotency-key-in-flight'> {
  constructor(retryAfterSeconds: number | undefined) {
    super(
      'idempotency-key-in-flight',
      'A request with this key is still running. Send it again in a moment.',
      undefined,
      {
        ...HELP,
        retryAfterSeconds,
      },
    );
  }
}

export class AnswerErased extends DomainError<'answer-erased'> {
  constructor() {
    super(
      'answer-erased',
      'The request was carried out. Its answer is gone, because it held personal data that was erased.',
      undefined,
      HELP,
    );
  }
}
