import type { TreeSource } from '../log/tree-reader.js';
import { STORED_LEVELS } from '../log/tree-reader.js';
import { HASH_LENGTH } from '../format/event-hash.js';
import { type Tile, TILE_WIDTH, tileOf, tilePath } from './tile-path.js';

/** A tile isn't what its address promises. */
export class BadTile extends Error {
  override readonly name = 'BadTile';
}

/**
 * A log's tree as its tiles have it, for whoever only knows a checkpoint. What comes out of it is to be compared with the
 * checkpoint's root: nobody vouches for a tile.
 */
export class TileSource implements TreeSource {
  private readonly tiles = new Map<string, Promise<Buffer>>();

  /**
   * @param size of the tree
   * @param fetchTile bytes of a tile by its path below `tile/`; null where there is none
   */
  constructor(
    private readonly size: number,
    private readonly fetchTile: (path: string) => Promise<Buffer | null>,
  ) {}

  leafHashes(begin: number, end: number): Promise<Buffer[]> {
    return this.hashes(0, begin, end);
  }

  nodeHashes(level: number, begin: number, end: number): Promise<Buffer[]> {
    return this.hashes(level / STORED_LEVELS, begin, end);
  }

  private async hashes(level: number, begin: number, end: number): Promise<Buffer[]> {
    const tile = tileOf(level, begin, this.size);
    const bytes = await this.bytesOf(tile);
    const first = begin - tile.index * TILE_WIDTH;
    return Array.from({ length: end - begin }, (_, at) =>
      bytes.subarray((first + at) * HASH_LENGTH, (first + at + 1) * HASH_LENGTH),
    );
  }

  private bytesOf(tile: Tile): Promise<Buffer> {
    const path = tilePath(tile);
    const known = this.tiles.get(path) ?? this.load(tile);
    this.tiles.set(path, known);
    return known;
  }

  /** A log may have thrown a partial tile away once the full one is there. */
  private async load(tile: Tile): Promise<Buffer> {
    const exact = await this.fetchTile(tilePath(tile));
    if (exact) return checked(exact, tile);
    const full = { ...tile, width: TILE_WIDTH };
    const bytes = tile.width < TILE_WIDTH ? await this.fetchTile(tilePath(full)) : null;
    if (!bytes) throw new BadTile(`the log has no tile ${tilePath(tile)}, which its checkpoint needs`);
    return checked(bytes, full);
  }
}

function checked(bytes: Buffer, tile: Tile): Buffer {
  if (bytes.length === tile.width * HASH_LENGTH) return bytes;
  throw new BadTile(`the tile ${tilePath(tile)} has ${bytes.length} bytes, not ${tile.width * HASH_LENGTH}`);
}
