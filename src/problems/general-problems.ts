import { defineProblem } from './define-problem.js';
import { faultsMember } from './problem-fault.js';
import { integerMember, optionalMember, textsMember } from './problem-members.js';

/*
 * What any service that speaks HTTP can answer. Problems of a feature stand with its errors.
 */

const versionMember = integerMember({ description: 'The version that the record has now.' });

export const malformedBody = defineProblem({
  code: 'malformed-body',
  status: 400,
  texts: {
    title: 'Malformed request',
    explanation:
      'The request could not be read: its body is not strict JSON, or the HTTP message itself is broken. Besides syntax errors, this refuses duplicate members, nesting beyond 32 levels, bytes that are not UTF-8, lone surrogates, NUL characters, and numbers that would lose digits.',
    whatToDo:
      'Correct the body at the place that errors[] names and send it again. Send numbers beyond 2^53 as strings.',
  },
  members: { errors: faultsMember },
  example: {
    errors: [{ pointer: '/channel', detail: 'The member occurs more than once.', line: 3, column: 3 }],
  },
});

export const unknownParameter = defineProblem({
  code: 'unknown-parameter',
  status: 400,
  texts: {
    title: 'Unknown query parameter',
    explanation:
      'The query string holds a parameter that this operation does not know. It is refused rather than ignored, so that a misspelt filter never returns too much.',
    whatToDo:
      'Remove or correct the parameters that errors[] names; the OpenAPI document lists what the operation knows.',
  },
  members: { errors: faultsMember },
  example: { errors: [{ parameter: 'stauts', detail: 'This parameter is not known here.' }] },
});

export const invalidParameter = defineProblem({
  code: 'invalid-parameter',
  status: 400,
  texts: {
    title: 'Invalid parameter',
    explanation: 'A parameter in the query string, the path or a header has a value that this operation cannot use.',
    whatToDo: 'Correct the parameters that errors[] names. In a query string a plus sign is written %2B.',
  },
  members: { errors: faultsMember },
  example: { errors: [{ parameter: 'limit', detail: 'limit must not be greater than 200' }] },
});

export const invalidCursor = defineProblem({
  code: 'invalid-cursor',
  status: 400,
  texts: {
    title: 'Invalid cursor',
    explanation: 'The cursor is damaged, or belongs to a list with another sort order or another filter.',
    whatToDo:
      'Use the cursor exactly as a page returned it, with the same sort and filter, or start again without one.',
  },
  members: { errors: faultsMember },
  example: { errors: [{ parameter: 'cursor', detail: 'The cursor belongs to another filter.' }] },
});

export const unauthenticated = defineProblem({
  code: 'unauthenticated',
  status: 401,
  texts: {
    title: 'Authentication required',
    explanation: 'The request carries no credentials, or credentials that are unknown, expired or revoked.',
    whatToDo: 'Send a valid API key or JWT as "Authorization: Bearer …".',
  },
});

export const forbidden = defineProblem({
  code: 'forbidden',
  status: 403,
  texts: {
    title: 'Forbidden',
    explanation: 'The caller is known, but may not do this.',
    whatToDo: 'Use credentials that may, or ask an administrator of the tenant.',
  },
});

export const roleRequired = defineProblem({
  code: 'role-required',
  status: 403,
  texts: {
    title: 'Role required',
    explanation: 'This step is reserved for certain roles, and the caller holds none of them.',
    whatToDo: 'Use credentials with one of the roles in roles[], or ask an administrator to grant one.',
  },
  members: { roles: textsMember({ description: 'Any one of these suffices.' }) },
  example: { roles: ['admin', 'operator'] },
});

export const notFound = defineProblem({
  code: 'not-found',
  status: 404,
  texts: {
    title: 'Not found',
    explanation: 'There is nothing at this address that the caller may see. Records of other tenants answer the same.',
    whatToDo: 'Check the address and the id, and that the credentials belong to the right tenant.',
  },
});

export const methodNotAllowed = defineProblem({
  code: 'method-not-allowed',
  status: 405,
  texts: {
    title: 'Method not allowed',
    explanation: 'The address exists, but not for this method.',
    whatToDo: 'Use one of the methods in the Allow header.',
  },
});

export const notAcceptable = defineProblem({
  code: 'not-acceptable',
  status: 406,
  texts: {
    title: 'Not acceptable',
    explanation: 'The resource cannot be represented in any of the media types that the Accept header allows.',
    whatToDo: 'Ask for one of the media types that the OpenAPI document lists for the operation.',
  },
});

export const requestTimeout = defineProblem({
  code: 'request-timeout',
  status: 408,
  texts: {
    title: 'Request timeout',
    explanation: 'The request did not arrive completely in the time the server waits for it.',
    whatToDo: 'Send it again; with the same idempotency key this is safe.',
  },
});

export const staleVersion = defineProblem({
  code: 'stale-version',
  status: 412,
  texts: {
    title: 'Version is stale',
    explanation: 'The record was changed since the version in If-Match was read. Nothing was changed by this request.',
    whatToDo: 'Read the record again, look at what changed, and repeat the request with the fresh ETag.',
  },
  members: { current: versionMember },
  example: { current: 4 },
});

export const payloadTooLarge = defineProblem({
  code: 'payload-too-large',
  status: 413,
  texts: {
    title: 'Payload too large',
    explanation: 'The body is larger than the service reads.',
    whatToDo: 'Send less; the limits of every field are in the OpenAPI document.',
  },
});

export const unsupportedMediaType = defineProblem({
  code: 'unsupported-media-type',
  status: 415,
  texts: {
    title: 'Unsupported media type',
    explanation: 'The body has a media type, a charset or a content encoding that this service does not read.',
    whatToDo: 'Send application/json or application/merge-patch+json in UTF-8, without a content encoding.',
  },
});

export const validationFailed = defineProblem({
  code: 'validation-failed',
  status: 422,
  texts: {
    title: 'Validation failed',
    explanation:
      'The body is sound JSON, but values in it are missing, wrong or out of bounds, or it holds fields that the operation does not know. Nothing was stored.',
    whatToDo: 'errors[] points at each fault with a JSON Pointer; correct them all and send it again.',
  },
  members: { errors: faultsMember },
  example: { errors: [{ pointer: '/lines/0/quantity', detail: 'quantity must not be less than 1' }] },
});

export const preconditionRequired = defineProblem({
  code: 'precondition-required',
  status: 428,
  texts: {
    title: 'If-Match required',
    explanation: 'This operation changes a version of the record, and must say which one.',
    whatToDo: 'Read the record and send its ETag as If-Match.',
  },
  members: { current: optionalMember(versionMember) },
  example: { current: 4 },
});

export const rateLimited = defineProblem({
  code: 'rate-limited',
  status: 429,
  texts: {
    title: 'Too many requests',
    explanation: 'More requests came than the service accepts in this time.',
    whatToDo: 'Wait as long as Retry-After says, then go on more slowly.',
  },
  retryAfterSeconds: 1,
});

export const headersTooLarge = defineProblem({
  code: 'headers-too-large',
  status: 431,
  texts: {
    title: 'Headers too large',
    explanation: 'The address and the headers together are larger than the service reads.',
    whatToDo: 'Send fewer or shorter headers; cookies and long tokens are the usual cause.',
  },
});

export const internalError = defineProblem({
  code: 'internal-error',
  status: 500,
  texts: {
    title: 'Internal error',
    explanation: 'Something went wrong inside the service. What the request did was rolled back.',
    whatToDo:
      'Try again with the same idempotency key. If it stays, tell the operator the requestId; the log has the cause.',
  },
});

export const unavailable = defineProblem({
  code: 'unavailable',
  status: 503,
  texts: {
    title: 'Temporarily unavailable',
    explanation:
      'The service cannot do this at the moment: it is overloaded, being restarted, or cannot reach its database or provider.',
    whatToDo: 'Wait as long as Retry-After says and send the same request with the same idempotency key again.',
  },
  retryAfterSeconds: 2,
});
