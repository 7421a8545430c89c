/**
 * Every error code of the API, with the status it answers and what its page says. The codes are a promise to clients:
 * one is never renamed or given another status.
 */
export interface ProblemDefinition {
  readonly status: number;
  readonly title: string;
  /** Whether the answer is kept under an idempotency key and replayed; after anything else the same key works again. */
  readonly kept: boolean;
  /** Seconds that `Retry-After` says when whoever raises the problem doesn't know better. */
  readonly retryAfter?: number;
  /** For the problem's page: what happened. */
  readonly explanation: string;
  /** For the problem's page: what the caller does about it. */
  readonly whatToDo: string;
}

function define(
  status: number,
  title: string,
  explanation: string,
  whatToDo: string,
  more: { kept?: boolean; retryAfter?: number } = {},
): ProblemDefinition {
  return { status, title, kept: false, explanation, whatToDo, ...more };
}

export const PROBLEMS = {
  'malformed-body': define(
    400,
    'Malformed request',
    'The request could not be read: its body is not strict JSON, or the HTTP message itself is broken. Besides syntax errors, this refuses duplicate members, nesting beyond 32 levels, bytes that are not UTF-8, lone surrogates, NUL characters, and numbers that would lose digits.',
    'Correct the body at the place that errors[] names and send it again. Send numbers beyond 2^53 as strings.',
  ),
  'unknown-parameter': define(
    400,
    'Unknown query parameter',
    'The query string holds a parameter that this operation does not know. It is refused rather than ignored, so that a misspelt filter never returns too much.',
    'Remove or correct the parameters that errors[] names; the OpenAPI document lists what the operation knows.',
  ),
  'invalid-parameter': define(
    400,
    'Invalid parameter',
    'A parameter in the query string, the path or a header has a value that this operation cannot use.',
    'Correct the parameters that errors[] names. In a query string a plus sign is written %2B.',
  ),
  'invalid-cursor': define(
    400,
    'Invalid cursor',
    'The cursor is damaged, or belongs to a list with another sort order or another filter.',
    'Use the cursor exactly as a page returned it, with the same sort and filter, or start again without one.',
  ),
  'idempotency-key-missing': define(
    400,
    'Idempotency key missing',
    'This operation has an effect, and a request that has an effect carries an Idempotency-Key header, so that a retry can never do it twice.',
    'Make one key (a UUID, for instance) for the action, store it with the action, and send it with every attempt.',
  ),
  'idempotency-key-invalid': define(
    400,
    'Idempotency key invalid',
    'The Idempotency-Key header is empty, too long, sent twice, or holds characters that a key may not have.',
    'Send one key of 1 to 255 visible ASCII characters without a comma, bare or in double quotes.',
  ),
  unauthenticated: define(
    401,
    'Authentication required',
    'The request carries no credentials, or credentials that are unknown, expired or revoked.',
    'Send a valid API key or JWT as "Authorization: Bearer …".',
  ),
  'payment-declined': define(
    402,
    'Payment declined',
    'The payment provider declined the payment. The decline is final for this attempt.',
    'Ask the customer for another means of payment and start a new attempt with a new idempotency key.',
    { kept: true },
  ),
  forbidden: define(
    403,
    'Forbidden',
    'The caller is known, but may not do this.',
    'Use credentials that may, or ask an administrator of the tenant.',
  ),
  'role-required': define(
    403,
    'Role required',
    'This step is reserved for certain roles, and the caller holds none of them.',
    'Use credentials with one of the roles in roles[], or ask an administrator to grant one.',
  ),
  'not-found': define(
    404,
    'Not found',
    'There is nothing at this address that the caller may see. Records of other tenants answer the same.',
    'Check the address and the id, and that the credentials belong to the right tenant.',
  ),
  'method-not-allowed': define(
    405,
    'Method not allowed',
    'The address exists, but not for this method.',
    'Use one of the methods in the Allow header.',
  ),
  'not-acceptable': define(
    406,
    'Not acceptable',
    'The resource cannot be represented in any of the media types that the Accept header allows.',
    'Ask for one of the media types that the OpenAPI document lists for the operation.',
  ),
  'request-timeout': define(
    408,
    'Request timeout',
    'The request did not arrive completely in the time the server waits for it.',
    'Send it again; with the same idempotency key this is safe.',
  ),
  'illegal-transition': define(
    409,
    'Illegal transition',
    'The workflow has no step from the state the record is in to the state that was asked for. Nothing was changed.',
    'Read the record and its transitions, and choose one of the states in allowed[].',
    { kept: true },
  ),
  'already-in-state': define(
    409,
    'Already in this state',
    'The record is already in the state that was asked for; most often somebody else was faster. Nothing was changed.',
    'Treat it as done, or read the history to see who did it.',
    { kept: true },
  ),
  'guard-refused': define(
    409,
    'Refused by a guard',
    'The step is legal, but a condition that guards it does not hold. Nothing was changed.',
    'guards[] says which conditions; meet them and try again with a new idempotency key.',
    { kept: true },
  ),
  'not-editable': define(
    409,
    'Not editable in this state',
    'The change touches fields that can no longer change in the state that the order is in. Lines and shipping are fixed once an order is confirmed, contacts once it is shipped; metadata can always change.',
    'Leave out the fields that the problem lists. To change them all the same, cancel the order and place another.',
    { kept: true },
  ),
  'external-ref-taken': define(
    409,
    'External reference taken',
    'An order of this channel already has this external reference. Nothing was created.',
    'Look at the order in orderId: it is most likely the one you meant to create.',
    { kept: true },
  ),
  'subject-taken': define(
    409,
    'Subject taken',
    'The tenant already has a user with this subject. Nothing was created.',
    'Use the user in userId, enable it again if it is disabled, or choose another subject.',
    { kept: true },
  ),
  'would-lock-out': define(
    409,
    'Would lock out',
    'The change would take away the access that the caller is using at this moment. Nothing was changed.',
    'Let another administrator of the tenant do it, or use other credentials of your own.',
  ),
  'quantity-exceeded': define(
    409,
    'Quantity exceeded',
    'More units were asked for than the order has left. Nothing was changed.',
    'Read the order for what is left and ask for no more than that.',
    { kept: true },
  ),
  'refund-exceeds-captured': define(
    409,
    'Refund exceeds what was captured',
    'All refunds together would be more than was captured. Nothing was refunded.',
    'Read the payment for what is left and refund no more than that.',
    { kept: true },
  ),
  'payment-in-progress': define(
    409,
    'Payment in progress',
    'The order has a live payment, which stands in the way of this step.',
    'Void or finish the payment first, then try again; the same idempotency key still works.',
  ),
  'idempotency-key-in-flight': define(
    409,
    'Request with this key is still running',
    'An earlier request with this idempotency key has not finished yet.',
    'Wait as long as Retry-After says and send the same request with the same key again.',
    { retryAfter: 1 },
  ),
  'answer-erased': define(
    410,
    'Answer erased',
    'The request with this idempotency key was carried out, but its answer held personal data that was erased since.',
    'Nothing needs repeating. Read the record if you need its current state.',
  ),
  'stale-version': define(
    412,
    'Version is stale',
    'The record was changed since the version in If-Match was read. Nothing was changed by this request.',
    'Read the record again, look at what changed, and repeat the request with the fresh ETag.',
  ),
  'payload-too-large': define(
    413,
    'Payload too large',
    'The body is larger than the service reads.',
    'Send less; the limits of every field are in the OpenAPI document.',
  ),
  'unsupported-media-type': define(
    415,
    'Unsupported media type',
    'The body has a media type, a charset or a content encoding that this service does not read.',
    'Send application/json or application/merge-patch+json in UTF-8, without a content encoding.',
  ),
  'validation-failed': define(
    422,
    'Validation failed',
    'The body is sound JSON, but values in it are missing, wrong or out of bounds, or it holds fields that the operation does not know. Nothing was stored.',
    'errors[] points at each fault with a JSON Pointer; correct them all and send it again.',
  ),
  'reason-required': define(
    422,
    'Reason required',
    'This step needs a reason, which its history will show.',
    'Send it again with a reason. Keep personal data out of it.',
  ),
  'total-mismatch': define(
    422,
    'Total mismatch',
    'The total that the caller expects differs from the total of the lines. The order was refused, so that nobody is charged another amount than was shown.',
    'Compare expected with actual; tax is rounded half up to a minor unit for each line.',
  ),
  'idempotency-key-reused': define(
    422,
    'Idempotency key reused',
    'This idempotency key belongs to another request. Its answer is not shown.',
    'Make a new key for a new action; keep a key for retries of the very same request only.',
  ),
  'precondition-required': define(
    428,
    'If-Match required',
    'This operation changes a version of the record, and must say which one.',
    'Read the record and send its ETag as If-Match.',
  ),
  'rate-limited': define(
    429,
    'Too many requests',
    'More requests came than the service accepts in this time.',
    'Wait as long as Retry-After says, then go on more slowly.',
    { retryAfter: 1 },
  ),
  'headers-too-large': define(
    431,
    'Headers too large',
    'The address and the headers together are larger than the service reads.',
    'Send fewer or shorter headers; cookies and long tokens are the usual cause.',
  ),
  'internal-error': define(
    500,
    'Internal error',
    'Something went wrong inside the service. What the request did was rolled back.',
    'Try again with the same idempotency key. If it stays, tell the operator the requestId; the log has the cause.',
  ),
  unavailable: define(
    503,
    'Temporarily unavailable',
    'The service cannot do this at the moment: it is overloaded, being restarted, or cannot reach its database or provider.',
    'Wait as long as Retry-After says and send the same request with the same idempotency key again.',
    { retryAfter: 2 },
  ),
} as const satisfies Record<string, ProblemDefinition>;

export type ProblemCode = keyof typeof PROBLEMS;

/** The definition of a code, with the optional members typed as optional. */
export function problemDefinition(code: ProblemCode): ProblemDefinition {
  return PROBLEMS[code];
}

export function isProblemCode(text: string): text is ProblemCode {
  return Object.hasOwn(PROBLEMS, text);
}
