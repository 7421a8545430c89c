import { createHash } from 'node:crypto';

import { canonicalJson } from './canonical-json.js';
import { isCanonicalTimestamp } from './timestamp.js';
import { isUuid } from './uuid.js';

/**
 * List cursors: base64url of a small JSON array, opaque to clients. They are not signed, because they grant nothing:
 * a cursor only says after which sort key a page begins, and the query it goes into is bound to the caller's tenant
 * like any other. A forged one can at most ask for another page of what the caller may read anyway.
 */
export type CursorDirection = 'next' | 'prev';

/** What a sort key's text must be, so that it can go into SQL: a canonical timestamp, a uuid, an int8, or any text. */
export type CursorValueKind = 'timestamp' | 'uuid' | 'integer' | 'text';

export interface Cursor {
  /** The sort expression, such as '-placedAt'. */
  sort: string;
  /** From `filterHash`. */
  filterHash: string;
  /** Sort keys of the row at the page's edge, as text: exact to the microsecond. */
  values: readonly string[];
  dir?: CursorDirection;
}

/** What the request says; a cursor of another list doesn't fit. */
export interface ExpectedCursor {
  sort: string;
  filterHash: string;
  /** Kind of each value, in order. */
  kinds: readonly CursorValueKind[];
}

/** A text that is no cursor of the list it was sent to. The message is for the client. */
export class InvalidCursor extends Error {
  override readonly name = 'InvalidCursor';
}

const VERSION = 1;
export const MAX_CURSOR_LENGTH = 1024;

/** A short hash of a filter (a plain JSON value); member order doesn't matter. */
export function filterHash(filter: unknown): string {
  return createHash('sha256').update(canonicalJson(filter)).digest('base64url').slice(0, 16);
}

/** @throws RangeError when the result would be longer than `decodeCursor` takes */
export function encodeCursor({ sort, filterHash, values, dir = 'next' }: Cursor): string {
  const text = Buffer.from(JSON.stringify([VERSION, sort, filterHash, dir, ...values])).toString('base64url');
  if (text.length > MAX_CURSOR_LENGTH) throw new RangeError(`A cursor is at most ${MAX_CURSOR_LENGTH} characters`);
  return text;
}

/**
 * @returns the cursor, its values checked by kind
 * @throws InvalidCursor for anything that isn't a cursor of this very list
 */
export function decodeCursor(text: string, expected: ExpectedCursor): Required<Cursor> {
  const [version, sort, hash, dir, ...values] = readArray(text);
  if (version !== VERSION || (dir !== 'next' && dir !== 'prev')) refuse('The cursor cannot be read.');
  if (sort !== expected.sort) refuse('The cursor belongs to another sort order.');
  if (hash !== expected.filterHash) refuse('The cursor belongs to another filter.');
  if (values.length !== expected.kinds.length || !values.every(isString)) refuse('The cursor cannot be read.');
  if (!values.every((value, index) => isOfKind(value, expected.kinds[index]))) refuse('The cursor cannot be read.');
  return { sort: expected.sort, filterHash: expected.filterHash, values, dir };
}

function readArray(text: string): unknown[] {
  if (typeof text !== 'string' || text.length > MAX_CURSOR_LENGTH) refuse('The cursor cannot be read.');
  const bytes = Buffer.from(text, 'base64url');
  // Buffer skips what isn't base64url; only a text that comes back the same was ours.
  if (bytes.toString('base64url') !== text) refuse('The cursor cannot be read.');
  try {
    const parsed: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    if (Array.isArray(parsed)) return parsed;
  } catch {
    // Falls through to the same refusal: a client can do nothing with the difference.
  }
  return refuse('The cursor cannot be read.');
}

const INTEGER = /^(?:0|-?[1-9]\d{0,17})$/;
const UNSTORABLE = /\0|\p{Surrogate}/u;

function isOfKind(value: string, kind: CursorValueKind | undefined): boolean {
  switch (kind) {
    case 'timestamp':
      return isCanonicalTimestamp(value);
    case 'uuid':
      return isUuid(value);
    case 'integer':
      return INTEGER.test(value);
    case 'text':
      return !UNSTORABLE.test(value);
    case undefined:
      return false;
    default:
      return kind satisfies never;
  }
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

function refuse(detail: string): never {
  throw new InvalidCursor(detail);
}
