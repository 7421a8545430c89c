import { describe, expect, it } from '@jest/globals';
import { genesisHash, sha256 } from '../format/event-hash.js';
import { StreamTable } from './stream-table.js';

const key = (at: number | string): Buffer => genesisHash(1, `order/${at}`);

describe('the table of stream ends', () => {
  it('keeps the last end of each stream, through every growth', () => {
    const table = new StreamTable();
    const hash = (text: string): Buffer => sha256(Buffer.from(text));
    for (let round = 1; round <= 2; round += 1) {
      for (let at = 0; at < 5000; at += 1) table.set(key(at), { version: round, hash: hash(`${round}/${at}`) });
    }
    expect(table.size).toBe(5000);
    expect(table.get(key('none'))).toBeUndefined();
    for (let at = 0; at < 5000; at += 7) expect(table.get(key(at))).toEqual({ version: 2, hash: hash(`2/${at}`) });
  });

  it('takes at most 76 bytes a stream', () => {
    const table = new StreamTable();
    const hash = Buffer.alloc(32, 1);
    for (let at = 0; at < 200_000; at += 1) {
      table.set(key(at), { version: 1, hash });
      if (at % 997 === 0 && at > 50_000) expect(table.bytes / table.size).toBeLessThanOrEqual(76);
    }
    expect(table.bytes / table.size).toBeLessThanOrEqual(76);
  });
});
