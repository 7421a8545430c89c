/**
 * JSON Canonicalization Scheme, RFC 8785: one text for each JSON value. Members are sorted by UTF-16 code units, numbers
 * have the shortest form of ECMAScript, strings the fewest escapes, and there is no white space.
 *
 * @param value null, boolean, finite number, string without lone surrogates, array or plain object of these
 * @throws TypeError for anything that JSON doesn't have (undefined, NaN, bigint, Date, class instances, …)
 */
export function canonicalJson(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return canonicalString(value);
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError(`JSON has no ${value}`);
      return JSON.stringify(value);
    case 'boolean':
      return String(value);
    case 'object':
      if (value === null) return 'null';
      if (Array.isArray(value)) return `[${Array.from(value, canonicalJson).join(',')}]`;
      return canonicalObject(value);
    default:
      throw new TypeError(`JSON has no ${typeof value}`);
  }
}

function canonicalObject(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TypeError('Only plain objects have a canonical form');
  }
  const members = Object.keys(value)
    .toSorted()
    .map((name) => `${canonicalString(name)}:${canonicalJson((value as Record<string, unknown>)[name])}`);
  return `{${members.join(',')}}`;
}

const LONE_SURROGATE = /\p{Surrogate}/u;

/** JSON.stringify escapes exactly what RFC 8785 wants escaped, apart from lone surrogates, which are an error there. */
function canonicalString(text: string): string {
  if (LONE_SURROGATE.test(text)) throw new TypeError('A string with a lone surrogate has no canonical form');
  return JSON.stringify(text);
}
