import {
  consistencyRanges,
  decompose,
  inclusionRanges,
  nodeHash,
  rootOfPeaks,
  type Subtree,
} from '../format/merkle.js';

/** Where a tree is stored: hashes of consecutive leaves, and of consecutive nodes of the levels 8, 16, …. */
export interface TreeSource {
  leafHashes(begin: number, end: number): Promise<Buffer[]>;
  nodeHashes(level: number, begin: number, end: number): Promise<Buffer[]>;
}

/** Levels between two stored ones are computed: at most 2^7 hashes for a node. */
export const STORED_LEVELS = 8;

export function isStored({ level }: Subtree): boolean {
  return level % STORED_LEVELS === 0;
}

/** The stored tree has holes, so that nothing can be proven from it. */
export class BrokenTreeError extends Error {
  override readonly name = 'BrokenTreeError';
}

/** Roots and proofs from a stored tree. Each costs a number of reads that grows with the logarithm of the size. */
export class TreeReader {
  constructor(private readonly source: TreeSource) {}

  async root(size: number): Promise<Buffer> {
    return this.rangeRoot(0, size);
  }

  /** Roots of the complete subtrees at the right edge, from which `CompactTree` goes on. */
  peaks(size: number): Promise<Buffer[]> {
    return this.subtrees(0, size);
  }

  inclusionProof(index: number, size: number): Promise<Buffer[]> {
    return this.rangeRoots(inclusionRanges(index, size));
  }

  consistencyProof(from: number, to: number): Promise<Buffer[]> {
    return this.rangeRoots(consistencyRanges(from, to));
  }

  private async rangeRoots(ranges: readonly [number, number][]): Promise<Buffer[]> {
    const roots: Buffer[] = [];
    for (const [begin, end] of ranges) roots.push(await this.rangeRoot(begin, end));
    return roots;
  }

  private async rangeRoot(begin: number, end: number): Promise<Buffer> {
    return rootOfPeaks(await this.subtrees(begin, end));
  }

  private async subtrees(begin: number, end: number): Promise<Buffer[]> {
    const roots: Buffer[] = [];
    for (const subtree of decompose(begin, end)) roots.push(await this.subtreeRoot(subtree));
    return roots;
  }

  private async subtreeRoot({ level, index }: Subtree): Promise<Buffer> {
    const above = level % STORED_LEVELS;
    const stored = level - above;
    const width = 2 ** above;
    const [begin, end] = [index * width, (index + 1) * width];
    const hashes =
      stored === 0 ? await this.source.leafHashes(begin, end) : await this.source.nodeHashes(stored, begin, end);
    if (hashes.length !== width) {
      throw new BrokenTreeError(`nodes ${begin} to ${end - 1} of level ${stored} are missing from the log`);
    }
    return foldComplete(hashes);
  }
}

function foldComplete(hashes: readonly Buffer[]): Buffer {
  let row = [...hashes];
  while (row.length > 1) {
    row = Array.from({ length: row.length / 2 }, (_, at) => nodeHash(row[2 * at]!, row[2 * at + 1]!));
  }
  return row[0]!;
}
