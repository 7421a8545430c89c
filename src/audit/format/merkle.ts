import { sha256 } from './event-hash.js';

/**
 * Merkle trees of RFC 6962, section 2.1, with proofs as RFC 9162, sections 2.1.3 and 2.1.4, gives them. Sizes and
 * indexes are whole numbers below 2^53, so halves are taken by division: bit operators would cut at 2^31.
 */
const NODE_PREFIX = Buffer.from([1]);
const EMPTY_ROOT = sha256();

export function nodeHash(left: Buffer, right: Buffer): Buffer {
  return sha256(NODE_PREFIX, left, right);
}

/** A complete subtree: it covers the leaves `index * 2^level` to `(index + 1) * 2^level - 1`. */
export interface Subtree {
  level: number;
  index: number;
}

/** The complete subtrees that together cover the leaves from `begin` (inclusive) to `end` (exclusive), left to right. */
export function decompose(begin: number, end: number): Subtree[] {
  const left: Subtree[] = [];
  const right: Subtree[] = [];
  let level = 0;
  let low = begin;
  let high = end;
  while (low < high) {
    if (low % 2 === 1) left.push({ level, index: low++ });
    if (high % 2 === 1) right.push({ level, index: --high });
    low /= 2;
    high /= 2;
    level += 1;
  }
  return [...left, ...right.toReversed()];
}

/**
 * A growing tree of which only the roots of the complete subtrees at the right edge are kept: at most one a level. Enough
 * to append, and to know the root at any moment.
 */
export class CompactTree {
  /** @param peaks roots of `decompose(0, size)`, the largest subtree first */
  constructor(
    private count = 0,
    private readonly peaks: Buffer[] = [],
  ) {
    if (peaks.length !== decompose(0, count).length) throw new Error(`a tree of ${count} leaves has other peaks`);
  }

  get size(): number {
    return this.count;
  }

  /** @param onNode is told of each subtree that the leaf completes, from level 1 up */
  append(leafHash: Buffer, onNode?: (node: Subtree, hash: Buffer) => void): void {
    let hash = leafHash;
    let index = this.count;
    for (let level = 1; index % 2 === 1; level += 1) {
      const left = this.peaks.pop();
      if (!left) throw new Error('a peak of the tree is missing');
      hash = nodeHash(left, hash);
      index = (index - 1) / 2;
      onNode?.({ level, index }, hash);
    }
    this.peaks.push(hash);
    this.count += 1;
  }

  root(): Buffer {
    return rootOfPeaks(this.peaks);
  }

  /** One that grows apart from this one. */
  copy(): CompactTree {
    return new CompactTree(this.count, [...this.peaks]);
  }
}

/** Joins subtrees that stand side by side, the smallest ones first. */
export function rootOfPeaks(peaks: readonly Buffer[]): Buffer {
  if (peaks.length === 0) return EMPTY_ROOT;
  return peaks.reduceRight((right, left) => nodeHash(left, right));
}

/**
 * Ranges of leaves whose roots are the inclusion proof of a leaf, in the proof's order.
 *
 * @throws RangeError when there is no such leaf in a tree of that size
 */
export function inclusionRanges(index: number, size: number): [begin: number, end: number][] {
  if (!isCount(size) || !isCount(index) || index >= size) throw new RangeError(`leaf ${index} is not in ${size}`);
  const ranges: [number, number][] = [];
  let [begin, end] = [0, size];
  while (end - begin > 1) {
    const middle = begin + splitPoint(end - begin);
    if (index < middle) {
      ranges.push([middle, end]);
      end = middle;
    } else {
      ranges.push([begin, middle]);
      begin = middle;
    }
  }
  return ranges.toReversed();
}

/**
 * Ranges of leaves whose roots are the consistency proof from a smaller tree to a larger one, in the proof's order.
 *
 * @throws RangeError unless 0 < from <= to
 */
export function consistencyRanges(from: number, to: number): [begin: number, end: number][] {
  if (!isCount(from) || !isCount(to) || from < 1 || from > to) throw new RangeError(`no proof from ${from} to ${to}`);
  const ranges: [number, number][] = [];
  let [begin, end] = [0, to];
  let isWhole = true;
  while (from !== end) {
    const middle = begin + splitPoint(end - begin);
    if (from <= middle) {
      ranges.push([middle, end]);
      end = middle;
    } else {
      ranges.push([begin, middle]);
      begin = middle;
      isWhole = false;
    }
  }
  if (!isWhole) ranges.push([begin, end]);
  return ranges.toReversed();
}

/** Whether a leaf with this hash is at `index` of the tree with that size and root. */
export function verifyInclusion(
  leaf: Buffer,
  index: number,
  size: number,
  proof: readonly Buffer[],
  root: Buffer,
): boolean {
  if (!isCount(index) || !isCount(size) || index >= size) return false;
  let [fn, sn] = [index, size - 1];
  let hash = leaf;
  for (const sibling of proof) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      hash = nodeHash(sibling, hash);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn / 2, half(sn)];
    } else {
      hash = nodeHash(hash, sibling);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 && hash.equals(root);
}

/** Whether the larger tree begins with all the leaves of the smaller one. */
export function verifyConsistency(
  from: number,
  fromRoot: Buffer,
  to: number,
  toRoot: Buffer,
  proof: readonly Buffer[],
): boolean {
  if (!isCount(from) || !isCount(to) || from < 1 || from > to) return false;
  if (from === to) return proof.length === 0 && fromRoot.equals(toRoot);
  const path = isPowerOfTwo(from) ? [fromRoot, ...proof] : [...proof];
  let [fn, sn] = [from - 1, to - 1];
  while (fn % 2 === 1) [fn, sn] = [half(fn), half(sn)];
  const [first, ...rest] = path;
  if (!first) return false;
  let [older, newer] = [first, first];
  for (const sibling of rest) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      older = nodeHash(sibling, older);
      newer = nodeHash(sibling, newer);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn / 2, half(sn)];
    } else {
      newer = nodeHash(newer, sibling);
    }
    [fn, sn] = [half(fn), half(sn)];
  }
  return sn === 0 && older.equals(fromRoot) && newer.equals(toRoot);
}

/** The largest power of two that is smaller than a size. */
function splitPoint(size: number): number {
  let power = 1;
  while (power * 2 < size) power *= 2;
  return power;
}

function half(value: number): number {
  return Math.floor(value / 2);
}

function isPowerOfTwo(value: number): boolean {
  let rest = value;
  while (rest % 2 === 0) rest /= 2;
  return rest === 1;
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
