import { decodeCursor, encodeCursor, filterHash } from '../common/index.js';

const SORT = '-id';

/** Reads the cursor of a list in the order of ids, newest first: the id that the page comes after. */
export function readIdCursor(cursor: string | undefined, filter: unknown): string | null {
  if (cursor === undefined) return null;
  return decodeCursor(cursor, { sort: SORT, filterHash: filterHash(filter), kinds: ['uuid'] }).values[0] ?? null;
}

/** @param rows one more than the page holds, where there are more */
export function idPage<Row extends { id: string }>(rows: readonly Row[], limit: number, filter: unknown) {
  const data = rows.slice(0, limit);
  const last = data.at(-1);
  const hasMore = rows.length > limit && last !== undefined;
  const next = hasMore ? encodeCursor({ sort: SORT, filterHash: filterHash(filter), values: [last.id] }) : null;
  return { data, next };
}
