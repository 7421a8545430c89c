import { createHash } from 'node:crypto';

/** What makes two requests the same request. */
export interface RequestIdentity {
  method: string;
  /** As it was sent, with the query when there is one. */
  url: string;
  /** Id of the user who asks. */
  principal: string;
  /** The Content-Type header; its parameters don't count. */
  contentType: string | undefined;
  ifMatch: string | undefined;
  /** In RFC 8785 form; empty for a request without one. */
  canonicalBody: string;
}

const DOMAIN = 'waybill-idempotency/v1';

/**
 * SHA-256 over the fields that make a request what it is. Each goes in with its length, so that no two requests run
 * together; a missing header differs from an empty one.
 */
export function requestFingerprint(request: RequestIdentity): Buffer {
  const mark = request.url.indexOf('?');
  const path = mark < 0 ? request.url : request.url.slice(0, mark);
  const query = mark < 0 ? [] : sortedQuery(request.url.slice(mark + 1));
  return createHash('sha256')
    .update(
      withLengths([
        DOMAIN,
        request.method,
        path,
        String(query.length),
        ...query.flat(),
        request.principal,
        mediaType(request.contentType),
        request.ifMatch?.trim(),
        request.canonicalBody,
      ]),
    )
    .digest();
}

/** Each field behind its length in four bytes; a missing one is a length of -1. */
function withLengths(fields: readonly (string | undefined)[]): Buffer {
  const lengths = fields.map((field) => (field === undefined ? -1 : Buffer.byteLength(field)));
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + Math.max(length, 0), 0));
  let at = 0;
  for (const [index, field] of fields.entries()) {
    at = bytes.writeInt32BE(lengths[index] ?? -1, at);
    if (field !== undefined) at += bytes.write(field, at);
  }
  return bytes;
}

/** Names and values, decoded. The order of names doesn't matter; of values under one name it does. */
function sortedQuery(query: string): [name: string, value: string][] {
  return query
    .split('&')
    .filter((part) => part !== '')
    .map((part): [string, string] => {
      const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(part) ?? [];
      return [decode(name), decode(value)];
    })
    .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Fastify hands text that isn't percent-encoded properly to handlers as it is, so it is compared as it is. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}

function mediaType(contentType: string | undefined): string | undefined {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase();
}
