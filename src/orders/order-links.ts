import { decodeCursor, encodeCursor, filterHash } from '../common/index.js';

/** RFC 8288 links to other pages of a list: the request's own address with another cursor. */
export function linkHeader(url: string, cursors: { next?: string | null; prev?: string | null }): string | undefined {
  const [path = '', query = ''] = url.split('?', 2);
  const links = Object.entries(cursors).flatMap(([relation, cursor]) => {
    if (!cursor) return [];
    const parameters = new URLSearchParams(query);
    parameters.set('cursor', cursor);
    return [`<${path}?${parameters.toString()}>; rel="${relation}"`];
  });
  return links.length > 0 ? links.join(', ') : undefined;
}

const SORT = 'version';

/** A cursor into the versions of one order. */
export function versionCursor(orderId: string, version: number): string {
  return encodeCursor({ sort: SORT, filterHash: filterHash(orderId), values: [String(version)] });
}

/** @throws DomainError `invalid-cursor` */
export function readVersionCursor(text: string, orderId: string): number {
  const { values } = decodeCursor(text, { sort: SORT, filterHash: filterHash(orderId), kinds: ['integer'] });
  return Number(values[0]);
}
