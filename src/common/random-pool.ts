import { randomFillSync } from 'node:crypto';

const POOL_BYTES = 8_192;

const pool = Buffer.allocUnsafeSlow(POOL_BYTES);
let used = POOL_BYTES;

/**
 * Random bytes from the system's generator, drawn many at a time, which saves calls of it.
 * A byte is given out once. At most 1024 at a time.
 */
export function randomBytesFromPool(length: number): Buffer {
  if (used + length > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  // A copy of its own, so that the next filling doesn't change it.
  const bytes = Buffer.from(pool.subarray(used, used + length));
  used += length;
  return bytes;
}
