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
  const hash = createHash('sha256');
  const add = (field: string | undefined): void => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(field === undefined ? -1 : Buffer.byteLength(field));
    hash.update(length).update(field ?? '');
  };
  add(DOMAIN);
  add(request.method);
  add(path);
  add(String(query.length));
  query.flat().forEach(add);
  add(request.principal);
  add(mediaType(request.contentType));
  add(request.ifMatch?.trim());
  add(request.canonicalBody);
  return hash.digest();
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
