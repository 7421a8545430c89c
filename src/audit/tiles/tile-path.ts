/*
 * Tiles of https://c2sp.org/tlog-tiles: the tree cut into pieces of 256 hashes side by side. A tile of level l holds
 * roots of complete subtrees of 256^l leaves.
 */
export const TILE_WIDTH = 256;
/** From here on a tile would begin beyond 2^53 leaves. */
const HIGHEST_LEVEL = 6;

export interface Tile {
  level: number;
  /** Place among the tiles of its level. */
  index: number;
  /** Hashes: 256, and fewer in the rightmost one. */
  width: number;
}

/** Its address below `<prefix>/tile/`. */
export function tilePath({ level, index, width }: Tile): string {
  const digits = String(index).padStart(Math.ceil(String(index).length / 3) * 3, '0');
  const parts = digits.match(/\d{3}/g) ?? [];
  const number = parts.map((part, at) => (at < parts.length - 1 ? `x${part}` : part)).join('/');
  return `${level}/${number}${width === TILE_WIDTH ? '' : `.p/${width}`}`;
}

/** @returns null for what isn't the address of a tile; each tile has one address only */
export function parseTilePath(path: string): Tile | null {
  const [, levelText = '', number = '', widthText] =
    /^([0-9]|[1-5][0-9]|6[0-3])\/((?:x\d{3}\/){0,5}\d{3})(?:\.p\/([1-9]\d{0,2}))?$/.exec(path) ?? [];
  const tile = {
    level: Number(levelText),
    index: Number(number.replaceAll(/[x/]/g, '')),
    width: Number(widthText ?? TILE_WIDTH),
  };
  return levelText !== '' && tile.level <= HIGHEST_LEVEL && tilePath(tile) === path ? tile : null;
}

/** How many leaves a tree must have for this tile to be in it. */
export function leavesUpTo({ level, index, width }: Tile): number {
  return (index * TILE_WIDTH + width) * TILE_WIDTH ** level;
}

/** The tile that a hash of this level is in, as wide as a tree of so many leaves has it. */
export function tileOf(level: number, hashIndex: number, size: number): Tile {
  const index = Math.floor(hashIndex / TILE_WIDTH);
  const ofLevel = Math.floor(size / TILE_WIDTH ** level);
  return { level, index, width: Math.min(TILE_WIDTH, ofLevel - index * TILE_WIDTH) };
}
