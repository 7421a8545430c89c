import pg from 'pg';
import { timestampFromPostgres } from '../common/index.js';

/**
 * Timestamps become RFC 3339 text, as the driver's Date would lose the microseconds; bigints become numbers, as ours
 * stay below 2^53 by CHECK. For a session under TimeZone UTC.
 */
export const VALUE_TYPES = { getTypeParser };

function getTypeParser(oid: number, format?: 'text' | 'binary'): unknown {
  if (oid === pg.types.builtins.TIMESTAMPTZ) return timestampFromPostgres;
  if (oid === pg.types.builtins.INT8) return Number;
  return pg.types.getTypeParser(oid, format as 'text');
}
