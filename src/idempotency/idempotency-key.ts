/** A key: visible ASCII without a comma, which would make two headers look like one. */
const KEY = /^[\x21-\x2b\x2d-\x7e]{1,255}$/;
/** A string of RFC 8941: in it only the quote and the backslash are escaped. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/;

/**
 * The key that an Idempotency-Key header names, or null when it names none. `"k"`, the form of the IETF draft, and the
 * bare `k` are the same key, so a key can't begin with a quote when it is sent bare. Parameters behind the string are
 * refused: no meaning was ever given to one. Sent twice, Node joins the values with a comma, which no key has.
 */
export function parseIdempotencyKey(header: string): string | null {
  const value = header.trim();
  const quoted = QUOTED.exec(value)?.[1];
  if (quoted === undefined && value.startsWith('"')) return null;
  const key = quoted === undefined ? value : quoted.replaceAll(/\\(.)/g, '$1');
  return KEY.test(key) ? key : null;
}
