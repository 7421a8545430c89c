import { describe, expect, it } from '@jest/globals';
import { leavesUpTo, parseTilePath, tileOf, tilePath } from './tile-path.js';

describe('the address of a tile', () => {
  it.each([
    // The first is the specification's example.
    ['0/x001/x234/067', { level: 0, index: 1_234_067, width: 256 }],
    ['0/000', { level: 0, index: 0, width: 256 }],
    ['0/999', { level: 0, index: 999, width: 256 }],
    ['0/x001/000', { level: 0, index: 1000, width: 256 }],
    ['1/001.p/17', { level: 1, index: 1, width: 17 }],
    ['2/000.p/1', { level: 2, index: 0, width: 1 }],
    ['0/x273/112.p/255', { level: 0, index: 273_112, width: 255 }],
  ])('%s is read and written', (path, tile) => {
    expect(parseTilePath(path)).toEqual(tile);
    expect(tilePath(tile)).toBe(path);
  });

  it.each([
    '',
    '0',
    '0/',
    '0/0',
    '0/00',
    '0/0000',
    '00/000',
    '0/x000/000',
    '0/x000/001',
    '0/001/000',
    '0/x001',
    '0/000.p/0',
    '0/000.p/01',
    '0/000.p/256',
    '0/000.p/',
    '0/000/p/1',
    '0/000.p/1/',
    '64/000',
    '7/000',
    '-1/000',
    'entries/000',
    '0/x999/x999/x999/x999/x999/999.p/1/..',
  ])('%j is none', (path) => {
    expect(parseTilePath(path)).toBeNull();
  });

  it("says which tiles a tree has: the specification's tree of 70,000", () => {
    expect(tileOf(0, 69_999, 70_000)).toEqual({ level: 0, index: 273, width: 112 });
    expect(tileOf(0, 0, 70_000)).toEqual({ level: 0, index: 0, width: 256 });
    expect(tileOf(1, 272, 70_000)).toEqual({ level: 1, index: 1, width: 17 });
    expect(tileOf(1, 0, 70_000)).toEqual({ level: 1, index: 0, width: 256 });
    expect(tileOf(2, 0, 70_000)).toEqual({ level: 2, index: 0, width: 1 });
    expect(tileOf(1, 0, 256)).toEqual({ level: 1, index: 0, width: 1 });
  });

  it('says from which size on it is there', () => {
    expect(leavesUpTo({ level: 0, index: 273, width: 112 })).toBe(70_000);
    expect(leavesUpTo({ level: 1, index: 1, width: 17 })).toBe(273 * 256);
    expect(leavesUpTo({ level: 2, index: 0, width: 1 })).toBe(65_536);
  });
});
