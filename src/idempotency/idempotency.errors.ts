import { defineProblem, DomainError } from '../problems/index.js';

export const idempotencyKeyMissing = defineProblem({
  code: 'idempotency-key-missing',
  status: 400,
  texts: {
    title: 'Idempotency key missing',
    explanation:
      'This operation has an effect, and a request that has an effect carries an Idempotency-Key header, so that a retry can never do it twice.',
    whatToDo:
      'Make one key (a UUID, for instance) for the action, store it with the action, and send it with every attempt.',
  },
});

export const idempotencyKeyInvalid = defineProblem({
  code: 'idempotency-key-invalid',
  status: 400,
  texts: {
    title: 'Idempotency key invalid',
    explanation:
      'The Idempotency-Key header is empty, too long, sent twice, or holds characters that a key may not have.',
    whatToDo: 'Send one key of 1 to 255 visible ASCII characters without a comma, bare or in double quotes.',
  },
});

export const idempotencyKeyInFlight = defineProblem({
  code: 'idempotency-key-in-flight',
  status: 409,
  texts: {
    title: 'Request with this key is still running',
    explanation: 'An earlier request with this idempotency key has not finished yet.',
    whatToDo: 'Wait as long as Retry-After says and send the same request with the same key again.',
  },
  retryAfterSeconds: 1,
});

export const answerErased = defineProblem({
  code: 'answer-erased',
  status: 410,
  texts: {
    title: 'Answer erased',
    explanation:
      'The request with this idempotency key was carried out, but its answer held personal data that was erased since.',
    whatToDo: 'Nothing needs repeating. Read the record if you need its current state.',
  },
});

export const idempotencyKeyReused = defineProblem({
  code: 'idempotency-key-reused',
  status: 422,
  texts: {
    title: 'Idempotency key reused',
    explanation: 'This idempotency key belongs to another request. Its answer is not shown.',
    whatToDo: 'Make a new key for a new action; keep a key for retries of the very same request only.',
  },
});

/** Where people read how keys work. */
export const IDEMPOTENCY_PAGE = '/docs/idempotency';

const HELP = { headers: { link: `<${IDEMPOTENCY_PAGE}>; rel="help"; type="text/html"` } };

export class IdempotencyKeyMissing extends DomainError<typeof idempotencyKeyMissing> {
  constructor() {
    super(
      idempotencyKeyMissing,
      `This operation needs an Idempotency-Key header; ${IDEMPOTENCY_PAGE} says how to make one.`,
      undefined,
      HELP,
    );
  }
}

export class IdempotencyKeyInvalid extends DomainError<typeof idempotencyKeyInvalid> {
  constructor() {
    super(
      idempotencyKeyInvalid,
      `Idempotency-Key must be one key of 1 to 255 visible ASCII characters without a comma; see ${IDEMPOTENCY_PAGE}.`,
      undefined,
      HELP,
    );
  }
}

export class IdempotencyKeyReused extends DomainError<typeof idempotencyKeyReused> {
  constructor() {
    super(
      idempotencyKeyReused,
      'This key was used for another request: method, address, caller, If-Match or body differ.',
      undefined,
      HELP,
    );
  }
}

export class IdempotencyKeyInFlight extends DomainError<typeof idempotencyKeyInFlight> {
  constructor(retryAfterSeconds: number | undefined) {
    super(idempotencyKeyInFlight, 'A request with this key is still running. Send it again in a moment.', undefined, {
      ...HELP,
      retryAfterSeconds,
    });
  }
}

export class AnswerErased extends DomainError<typeof answerErased> {
  constructor() {
    super(
      answerErased,
      'The request was carried out. Its answer is gone, because it held personal data that was erased.',
      undefined,
      HELP,
    );
  }
}
