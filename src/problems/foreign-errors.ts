import {
  forbidden,
  headersTooLarge,
  invalidCursor,
  invalidParameter,
  malformedBody,
  methodNotAllowed,
  notAcceptable,
  notFound,
  payloadTooLarge,
  rateLimited,
  requestTimeout,
  unauthenticated,
  unavailable,
  unsupportedMediaType,
  validationFailed,
} from './general-problems.js';
import { InvalidCursor } from '../common/index.js';
import { DomainError } from './domain-error.js';

/**
 * Errors that others raise (Fastify, Nest, Node, pg), recognised by their shape, so that this file needs none of them; and
 * those of `common`, which knows no problems.
 * What it doesn't know is a bug of ours, and stays one.
 */
interface ErrorShape {
  code?: unknown;
  message?: unknown;
  statusCode?: unknown;
  syscall?: unknown;
  routine?: unknown;
  cause?: unknown;
  driverError?: unknown;
  whileConnecting?: unknown;
  getStatus?: unknown;
}

/** The domain error that stands for a foreign one, or undefined for what is an internal error. */
export function fromForeignError(error: unknown): DomainError | undefined {
  if (!isErrorShape(error)) return undefined;
  if (error instanceof InvalidCursor) return cursorRefused(error);
  return fromHttpLayer(error) ?? fromDatabase(error) ?? fromHttpStatus(error);
}

/** Errors of Fastify and of Node's HTTP parser, by code; also when Nest wrapped one as the cause of an exception. */
function fromHttpLayer(error: ErrorShape): DomainError | undefined {
  if (isErrorShape(error.cause) && typeof error.getStatus === 'function') {
    const wrapped = fromHttpLayer(error.cause);
    if (wrapped) return wrapped;
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new DomainError(payloadTooLarge, 'The body is larger than this service reads.', undefined, because(error));
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return foreignMediaType(error);
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return malformed('The size of the body does not match its Content-Length.', error);
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
      return malformed('The body is empty.', error);
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
      return malformed('The body is not valid JSON.', error);
    case 'FST_ERR_BAD_URL':
      return badAddress(error);
    // An id that is longer than any id names nothing.
    case 'FST_ERR_MAX_PARAM_LENGTH':
    case 'FST_ERR_NOT_FOUND':
      return nothingThere(error);
    case 'FST_ERR_HANDLER_TIMEOUT':
      return notNow('The request took too long.', error);
    case 'HPE_HEADER_OVERFLOW':
      return new DomainError(
        headersTooLarge,
        'The headers are larger than this service reads.',
        undefined,
        because(error),
      );
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new DomainError(
        requestTimeout,
        'The request did not arrive completely in time.',
        undefined,
        because(error),
      );
    case 'ECONNRESET':
      // Fastify marks a body that broke off this way; without the mark it is a connection of ours.
      return error.statusCode === 400 ? malformed('The body broke off.', error) : undefined;
    default:
      return typeof error.code === 'string' && error.code.startsWith('HPE_')
        ? malformed('The request is not well-formed HTTP.', error)
        : undefined;
  }
}

const UNAVAILABLE_SQLSTATES = new Set([
  '25006', // read-only transaction: the server became a standby
  '25P03', // idle in transaction for too long
  '25P04', // transaction timeout
  '40001', // serialization failure
  '40003', // statement completion unknown
  '40P01', // deadlock
  '53000', // insufficient resources
  '53100', // disk full
  '53200', // out of memory
  '53300', // too many connections
  '53400', // configuration limit exceeded
  '55P03', // lock not available, lock timeout
  '57014', // query canceled, statement timeout
  '57P01', // admin shutdown
  '57P02', // crash shutdown
  '57P03', // cannot connect now
  '57P05', // idle session timeout
  '58030', // I/O error
]);

const UNAVAILABLE_SYSTEM_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

// pg and pg-pool raise these as plain errors without a code.
const LOST_CONNECTION =
  /^(?:timeout exceeded when trying to connect|timeout expired|Connection terminated\b.*|Query read timeout|Client has encountered a connection error and is not queryable|Client was closed and is not queryable|Cannot use a pool after calling end on the pool)$/;

/**
 * Whether an error says that the database is away or overloaded, so that the same work may succeed a little later. Whatever keeps
 * a connection from being made is one (the database module marks it): a password that is being changed, a database that is being
 * restored, a certificate that has expired. Nothing was done, and no request is at fault.
 */
export function isUnavailable(error: unknown): boolean {
  if (!isErrorShape(error)) return false;
  const source = isErrorShape(error.driverError) ? error.driverError : error;
  if (source.whileConnecting === true) return true;
  if (typeof source.code === 'string') {
    if (UNAVAILABLE_SQLSTATES.has(source.code) || UNAVAILABLE_SYSTEM_CODES.has(source.code)) return true;
    // "Feature not supported" to a setting: of ours that is READ WRITE, at the beginning of a transaction on a standby.
    if (source.code === '0A000' && source.routine === 'call_bool_check_hook') return true;
    if (/^08[0-9A-Z]{3}$/.test(source.code)) return true;
    // A unix socket that isn't there yet.
    return source.code === 'ENOENT' && source.syscall === 'connect';
  }
  return typeof source.message === 'string' && LOST_CONNECTION.test(source.message);
}

/** Text that no column and no jsonb can hold: NUL, a lone surrogate. What can't be stored was sent. */
const UNSTORABLE_TEXT = new Set([
  '22021', // character not in repertoire
  '22P05', // untranslatable character
]);

function fromDatabase(error: ErrorShape): DomainError | undefined {
  const { code } = isErrorShape(error.driverError) ? error.driverError : error;
  if (typeof code === 'string' && UNSTORABLE_TEXT.has(code)) {
    return malformed('The request holds characters that cannot be kept, such as NUL (U+0000).', error);
  }
  return isUnavailable(error) ? notNow('The service cannot do this at the moment.', error) : undefined;
}

/** Nest's HttpException and its kind: only the status counts, since their texts were not written for clients. */
function fromHttpStatus(error: ErrorShape): DomainError | undefined {
  const status = typeof error.getStatus === 'function' ? (error.getStatus() as unknown) : error.statusCode;
  switch (status) {
    case 400:
      return new DomainError(invalidParameter, 'The request cannot be understood.', { errors: [] }, because(error));
    case 401:
      return new DomainError(unauthenticated, 'Valid credentials are required.', undefined, because(error));
    case 403:
      return new DomainError(forbidden, 'The caller may not do this.', undefined, because(error));
    case 404:
      return nothingThere(error);
    case 405:
      return new DomainError(methodNotAllowed, 'The address has no such method.', undefined, because(error));
    case 406:
      return new DomainError(notAcceptable, 'No acceptable representation.', undefined, because(error));
    case 408:
      return new DomainError(requestTimeout, 'The request did not arrive in time.', undefined, because(error));
    case 413:
      return new DomainError(payloadTooLarge, 'The body is larger than this service reads.', undefined, because(error));
    case 415:
      return foreignMediaType(error);
    case 422:
      return new DomainError(validationFailed, 'The body has faults.', { errors: [] }, because(error));
    case 429:
      return new DomainError(rateLimited, 'Too many requests.', undefined, because(error));
    case 431:
      return new DomainError(
        headersTooLarge,
        'The headers are larger than this service reads.',
        undefined,
        because(error),
      );
    case 503:
      return notNow('The service cannot do this at the moment.', error);
    default:
      return undefined;
  }
}

function malformed(detail: string, cause: ErrorShape): DomainError {
  return new DomainError(malformedBody, detail, { errors: [{ detail }] }, because(cause));
}

function badAddress(cause: ErrorShape): DomainError {
  const detail = 'The address is not a valid URL; look at its percent-encoding.';
  return new DomainError(invalidParameter, detail, { errors: [{ detail }] }, because(cause));
}

function cursorRefused(cause: InvalidCursor): DomainError {
  const errors = [{ parameter: 'cursor', detail: cause.message }];
  return new DomainError(invalidCursor, cause.message, { errors }, { cause });
}

function nothingThere(cause: ErrorShape): DomainError {
  return new DomainError(notFound, 'There is nothing at this address.', undefined, because(cause));
}

function foreignMediaType(cause: ErrorShape): DomainError {
  return new DomainError(
    unsupportedMediaType,
    'Send application/json or application/merge-patch+json.',
    undefined,
    because(cause),
  );
}

function notNow(detail: string, cause: ErrorShape): DomainError {
  return new DomainError(unavailable, detail, undefined, because(cause));
}

function because(cause: ErrorShape): { cause: ErrorShape } {
  return { cause };
}

function isErrorShape(value: unknown): value is ErrorShape {
  return typeof value === 'object' && value !== null;
}
