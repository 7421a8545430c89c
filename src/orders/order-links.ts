import { decodeCursor, encodeCursor, filterHash } from '../common/index.js';

const SORT = 'version';

/** A cursor into the versions of one order. */
export function versionCursor(orderId: string, version: number): string {
  return encodeCursor({ sort: SORT, filterHash: filterHash(orderId), values: [String(version)] });
}

/** @throws InvalidCursor */
export function readVersionCursor(text: string, orderId: string): number {
  const { values } = decodeCursor(text, { sort: SORT, filterHash: filterHash(orderId), kinds: ['integer'] });
  return Number(values[0]);
}
