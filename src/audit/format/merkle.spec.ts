import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { sha256 } from './event-hash.js';
import {
  CompactTree,
  consistencyRanges,
  decompose,
  inclusionRanges,
  nodeHash,
  type Subtree,
  verifyConsistency,
  verifyInclusion,
} from './merkle.js';

/** RFC 6962, section 2.1, word for word: slow, and plainly right. */
function naiveRoot(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0]!;
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return nodeHash(naiveRoot(leaves.slice(0, k)), naiveRoot(leaves.slice(k)));
}

function naiveInclusion(m: number, leaves: readonly Buffer[]): Buffer[] {
  if (leaves.length === 1) return [];
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return m < k
    ? [...naiveInclusion(m, leaves.slice(0, k)), naiveRoot(leaves.slice(k))]
    : [...naiveInclusion(m - k, leaves.slice(k)), naiveRoot(leaves.slice(0, k))];
}

function naiveConsistency(m: number, leaves: readonly Buffer[], isWhole = true): Buffer[] {
  if (m === leaves.length) return isWhole ? [] : [naiveRoot(leaves)];
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return m <= k
    ? [...naiveConsistency(m, leaves.slice(0, k), isWhole), naiveRoot(leaves.slice(k))]
    : [...naiveConsistency(m - k, leaves.slice(k), false), naiveRoot(leaves.slice(0, k))];
}

const leafOf = (data: Uint8Array): Buffer => sha256(Buffer.from([0]), data);
const leavesOf = (count: number): Buffer[] => Array.from({ length: count }, (_, at) => leafOf(Buffer.from(`${at}`)));
const rootOf = (leaves: readonly Buffer[], [begin, end]: readonly [number, number]): Buffer =>
  naiveRoot(leaves.slice(begin, end));

function treeOf(leaves: readonly Buffer[], onNode?: (node: Subtree, hash: Buffer) => void): CompactTree {
  const tree = new CompactTree();
  for (const leaf of leaves) tree.append(leaf, onNode);
  return tree;
}

const sizes = fc.integer({ min: 1, max: 130 });
const treeWithLeaf = sizes.chain((size) => fc.tuple(fc.constant(size), fc.integer({ min: 0, max: size - 1 })));
const twoSizes = sizes.chain((to) => fc.tuple(fc.integer({ min: 1, max: to }), fc.constant(to)));

/** Each copy of a proof in which one bit is another. */
function* withOneBitFlipped(proof: readonly Buffer[]): Generator<Buffer[]> {
  for (const [at, hash] of proof.entries()) {
    for (let bit = 0; bit < hash.length * 8; bit += 1) {
      const flipped = Buffer.from(hash);
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      yield proof.with(at, flipped);
    }
  }
}

describe('the Merkle tree', () => {
  // The leaves and roots that implementations of Certificate Transparency test themselves with.
  const inputs = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
  it.each([
    [0, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    [1, '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'],
    [2, 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125'],
    [3, 'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77'],
    [4, 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7'],
    [5, '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4'],
    [6, '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef'],
    [7, 'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c'],
    [8, '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'],
  ])('has the known root of %i leaves', (size, root) => {
    const leaves = inputs.slice(0, size).map((hex) => leafOf(Buffer.from(hex, 'hex')));
    expect(treeOf(leaves).root().toString('hex')).toBe(root);
  });

  it('has the root that RFC 6962 defines, at every size', () => {
    fc.assert(
      fc.property(sizes, (size) => {
        const leaves = leavesOf(size);
        expect(treeOf(leaves).root()).toEqual(naiveRoot(leaves));
      }),
    );
  });

  it('goes on from its peaks as if it had never stopped', () => {
    fc.assert(
      fc.property(twoSizes, ([from, to]) => {
        const leaves = leavesOf(to);
        const peaks = decompose(0, from).map(({ level, index }) =>
          rootOf(leaves, [index * 2 ** level, (index + 1) * 2 ** level]),
        );
        const tree = new CompactTree(from, peaks);
        for (const leaf of leaves.slice(from)) tree.append(leaf);
        expect(tree.root()).toEqual(naiveRoot(leaves));
      }),
    );
  });

  it('tells of every complete subtree once, with its root', () => {
    const leaves = leavesOf(100);
    const told = new Map<string, Buffer>();
    treeOf(leaves, ({ level, index }, hash) => told.set(`${level}/${index}`, hash));
    const expected = new Map<string, Buffer>();
    for (let level = 1; 2 ** level <= 100; level += 1) {
      for (let index = 0; (index + 1) * 2 ** level <= 100; index += 1) {
        expected.set(`${level}/${index}`, rootOf(leaves, [index * 2 ** level, (index + 1) * 2 ** level]));
      }
    }
    expect(told).toEqual(expected);
  });

  it('covers a range with complete subtrees, left to right and without overlap', () => {
    fc.assert(
      fc.property(fc.nat(2 ** 20), fc.nat(2 ** 20), (a, b) => {
        const [begin, end] = [Math.min(a, b), Math.max(a, b)];
        let at = begin;
        for (const { level, index } of decompose(begin, end)) {
          expect(index * 2 ** level).toBe(at);
          at += 2 ** level;
        }
        expect(at).toBe(end);
      }),
    );
  });

  it('works beyond 2^32 leaves', () => {
    const size = 2 ** 40 + 3;
    expect(decompose(0, size)).toEqual([
      { level: 40, index: 0 },
      { level: 1, index: 2 ** 39 },
      { level: 0, index: size - 1 },
    ]);
    expect(inclusionRanges(2 ** 39, size)).toHaveLength(41);
  });

  it('gives inclusion proofs that RFC 6962 defines and that verify', () => {
    fc.assert(
      fc.property(treeWithLeaf, ([size, index]) => {
        const leaves = leavesOf(size);
        const proof = inclusionRanges(index, size).map((range) => rootOf(leaves, range));
        expect(proof).toEqual(naiveInclusion(index, leaves));
        expect(verifyInclusion(leaves[index]!, index, size, proof, naiveRoot(leaves))).toBe(true);
      }),
    );
  });

  it('gives consistency proofs that RFC 6962 defines and that verify', () => {
    fc.assert(
      fc.property(twoSizes, ([from, to]) => {
        const leaves = leavesOf(to);
        const proof = consistencyRanges(from, to).map((range) => rootOf(leaves, range));
        expect(proof).toEqual(naiveConsistency(from, leaves));
        expect(verifyConsistency(from, naiveRoot(leaves.slice(0, from)), to, naiveRoot(leaves), proof)).toBe(true);
      }),
    );
  });

  it.each([
    [1, 0],
    [2, 1],
    [7, 3],
    [8, 5],
    [13, 12],
  ])('refuses the inclusion proof of %i leaves, leaf %i, with any bit flipped', (size, index) => {
    const leaves = leavesOf(size);
    const proof = inclusionRanges(index, size).map((range) => rootOf(leaves, range));
    for (const flipped of withOneBitFlipped(proof))
      expect(verifyInclusion(leaves[index]!, index, size, flipped, naiveRoot(leaves))).toBe(false);
    for (const [root] of withOneBitFlipped([naiveRoot(leaves)]))
      expect(verifyInclusion(leaves[index]!, index, size, proof, root!)).toBe(false);
    for (const [leaf] of withOneBitFlipped([leaves[index]!]))
      expect(verifyInclusion(leaf!, index, size, proof, naiveRoot(leaves))).toBe(false);
  });

  it.each([
    [1, 2],
    [3, 7],
    [4, 8],
    [6, 8],
    [7, 13],
  ])('refuses the consistency proof from %i to %i leaves with any bit flipped', (from, to) => {
    const leaves = leavesOf(to);
    const proof = consistencyRanges(from, to).map((range) => rootOf(leaves, range));
    const [older, newer] = [naiveRoot(leaves.slice(0, from)), naiveRoot(leaves)];
    for (const flipped of withOneBitFlipped(proof))
      expect(verifyConsistency(from, older, to, newer, flipped)).toBe(false);
    for (const [root] of withOneBitFlipped([older]))
      expect(verifyConsistency(from, root!, to, newer, proof)).toBe(false);
    for (const [root] of withOneBitFlipped([newer]))
      expect(verifyConsistency(from, older, to, root!, proof)).toBe(false);
  });

  it('refuses a proof for another index, for another size that has another shape, too long or too short', () => {
    const leaves = leavesOf(11);
    const root = naiveRoot(leaves);
    for (let index = 0; index < 11; index += 1) {
      const proof = inclusionRanges(index, 11).map((range) => rootOf(leaves, range));
      for (let other = 0; other < 14; other += 1)
        expect(verifyInclusion(leaves[index]!, other, 11, proof, root)).toBe(other === index);
      expect(verifyInclusion(leaves[index]!, index, 11, [...proof, root], root)).toBe(false);
      expect(verifyInclusion(leaves[index]!, index, 11, proof.slice(0, -1), root)).toBe(false);
      expect(verifyInclusion(leaves[index]!, index, index, proof, root)).toBe(false);
    }
  });

  it('refuses consistency from another size, to another size, too long or too short', () => {
    const leaves = leavesOf(11);
    const roots = leaves.map((_, at) => naiveRoot(leaves.slice(0, at + 1)));
    const rootAt = (size: number): Buffer => roots[size - 1]!;
    for (let from = 1; from < 11; from += 1) {
      const proof = consistencyRanges(from, 11).map((range) => rootOf(leaves, range));
      for (let other = 1; other <= 11; other += 1)
        expect(verifyConsistency(other, rootAt(other), 11, rootAt(11), proof)).toBe(other === from);
      expect(verifyConsistency(from, rootAt(from), 11, rootAt(11), [...proof, rootAt(1)])).toBe(false);
      expect(verifyConsistency(from, rootAt(from), 11, rootAt(11), proof.slice(0, -1))).toBe(false);
      expect(verifyConsistency(0, sha256(), 11, rootAt(11), proof)).toBe(false);
      expect(verifyConsistency(11, rootAt(11), from, rootAt(from), proof)).toBe(false);
    }
    expect(verifyConsistency(5, rootAt(5), 5, rootAt(6), [])).toBe(false);
  });

  it('says what it can give no proof of', () => {
    expect(() => inclusionRanges(5, 5)).toThrow(RangeError);
    expect(() => inclusionRanges(-1, 5)).toThrow(RangeError);
    expect(() => inclusionRanges(0.5, 5)).toThrow(RangeError);
    expect(() => consistencyRanges(0, 5)).toThrow(RangeError);
    expect(() => consistencyRanges(6, 5)).toThrow(RangeError);
    expect(() => new CompactTree(3, [sha256()])).toThrow('peaks');
  });
});
