import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { int8be } from '../../../src/audit/format/event-hash.js';
import { verifyConsistency, verifyInclusion } from '../../../src/audit/format/merkle.js';
import { exportSource } from '../../../src/audit/log/export-source.js';
import { LogStore } from '../../../src/audit/log/log-store.js';
import { openCheckpoint } from '../../../src/audit/log/open-log.js';
import { inPoolTransaction } from '../../../src/database/transaction.js';
import { TreeReader } from '../../../src/audit/log/tree-reader.js';
import type { ExportLine } from '../../../src/audit/verify/export-format.js';
import { LeafLines } from '../../../src/audit/verify/leaf-line.js';
import { verifyExport } from '../../../src/audit/verify/verify-export.js';
import { writeExport } from '../../../src/audit/verify/write-export.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, type Sealing, startSealing } from '../../support/audit.js';
import { orderBody } from '../../support/builders.js';
import { generateEvents } from '../../support/generate-events.js';
import { withClient } from '../../support/sql.js';

const STREAMS = 700;
const VERSIONS = 3;
const EVENTS = STREAMS * VERSIONS;
/** With the one that starts the log. */
const SIZE = EVENTS_OF_A_NEW_TENANT + EVENTS + 1;

interface SigstoreCheckpoint {
  logSize: bigint;
  logHash: Buffer;
}
interface SigstoreEntry {
  canonicalizedBody: Buffer;
  inclusionProof: { logIndex: string; hashes: Buffer[]; checkpoint: { envelope: string } };
}

/** What Sigstore's own verifier has of signed notes and Merkle proofs; it is written by others, for other logs. */
const sigstore = createRequire(import.meta.url);
const { verifyCheckpoint } = sigstore('@sigstore/verify/dist/tlog/checkpoint.js') as {
  verifyCheckpoint(
    entry: SigstoreEntry,
    logs: { logID: Buffer; publicKey: unknown; baseURL: string }[],
  ): SigstoreCheckpoint;
};
const { verifyMerkleInclusion } = sigstore('@sigstore/verify/dist/tlog/merkle.js') as {
  verifyMerkleInclusion(entry: SigstoreEntry, checkpoint: SigstoreCheckpoint): void;
};

describe('a log of thousands of events', () => {
  let service: TestApp;
  let sealing: Sealing;
  let note: string;
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
    await withClient(service.database.superuserUrl, (client: Client) =>
      generateEvents(client, 1, { streams: STREAMS, versions: VERSIONS }),
    );
    expect(await sealing.seal()).toBe(EVENTS_OF_A_NEW_TENANT + EVENTS);
    note = (await sealing.directory.read(1)) ?? '';
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  const withTree = <T>(work: (tree: TreeReader, store: LogStore) => Promise<T>): Promise<T> =>
    inPoolTransaction(sealing.pool, (client) => {
      const store = new LogStore(client, 1);
      return work(new TreeReader(store), store);
    });

  it('verifies, and knows the end of each stream in at most 80 bytes', async () => {
    expect(await sealing.verify({ skipState: true })).toMatchObject({
      verdict: 'intact',
      size: SIZE,
      streams: EVENTS_OF_A_NEW_TENANT + STREAMS + 1,
    });
  });

  it('stores a node for each 256 leaves, and proves any event by few reads', async () => {
    const { root } = openCheckpoint(note, sealing.trusted);
    const [nodes] = await sealing.sql<{ count: string }>('SELECT count(*) FROM audit.nodes');
    expect(Number(nodes?.count)).toBe(Math.floor(SIZE / 256));
    for (const index of [0, 1, 255, 256, 511, 1000, 2047, 2048, SIZE - 1]) {
      await withTree(async (tree, store) => {
        const [leaf] = await store.leafHashes(index, index + 1);
        expect(verifyInclusion(leaf!, index, SIZE, await tree.inclusionProof(index, SIZE), root)).toBe(true);
      });
    }
    for (const from of [1, 255, 256, 257, 1024, 2048, SIZE]) {
      await withTree(async (tree) => {
        const proof = await tree.consistencyProof(from, SIZE);
        expect(verifyConsistency(from, await tree.root(from), SIZE, root, proof)).toBe(true);
      });
    }
  });

  it('finds a stored node that was tampered with, which proofs would be made of', async () => {
    const [node] = await sealing.sql<{ hash: Buffer }>('SELECT hash FROM audit.nodes WHERE node_index = 3');
    await sealing.tamper(`UPDATE audit.nodes SET hash = sha256('x') WHERE node_index = 3`);
    expect(await sealing.verify({ skipState: true })).toMatchObject({ fault: { code: 'ROOT_MISMATCH' } });
    await sealing.tamper(`UPDATE audit.nodes SET hash = '\\x${node?.hash.toString('hex')}' WHERE node_index = 3`);
  });

  it("has notes and proofs that Sigstore's verifier accepts", async () => {
    const source = await exportSource(sealing.pool, 1);
    for (const index of [0, 700, SIZE - 1]) {
      const [line] = await source!.page(index - 1, 1);
      const hashes = await withTree((tree) => tree.inclusionProof(index, SIZE));
      const entry = entryOf(line!, hashes);
      const checkpoint = verifyCheckpoint(entry, [log()]);
      expect(checkpoint.logSize).toBe(BigInt(SIZE));
      verifyMerkleInclusion(entry, checkpoint);
      entry.canonicalizedBody[5]! ^= 1;
      expect(() => verifyMerkleInclusion(entry, checkpoint)).toThrow('root hash');
    }
    const forged = note.replace(`\n${SIZE}\n`, `\n${SIZE - 1}\n`);
    const line = (await source!.page(-1, 1))[0]!;
    expect(() => verifyCheckpoint({ ...entryOf(line, []), ...noteEntry(forged) }, [log()])).toThrow(
      'invalid checkpoint signature',
    );
  });

  it('is exported only as fast as somebody takes it', async () => {
    const source = await exportSource(sealing.pool, 1);
    let pages = 0;
    const counting = {
      header: source!.header,
      page: (after: number, limit: number) => {
        pages += 1;
        return source!.page(after, limit);
      },
    };
    const stream = Readable.from(writeExport(counting), { objectMode: false, highWaterMark: 64 * 1024 });
    const reader = stream[Symbol.asyncIterator]();
    await reader.next();
    await new Promise((resolve) => setTimeout(resolve, 300));
    // A slow client has taken one line; a page lies ready, and no more was read.
    expect(pages).toBeLessThanOrEqual(2);
    let rest = 0;
    for (let next = await reader.next(); !next.done; next = await reader.next()) rest += (next.value as Buffer).length;
    expect(pages).toBe(Math.ceil(SIZE / 200));
    expect(rest).toBeGreaterThan(SIZE * 500);
  });

  it('is read again only from where the last verification ended', async () => {
    const last = openCheckpoint(note, sealing.trusted);
    await service.as('operator').post('/v1/orders', orderBody());
    await sealing.seal();
    expect(await sealing.verify({ since: last, skipState: true })).toMatchObject({
      verdict: 'intact',
      fromIndex: SIZE,
      size: SIZE + 1,
      streams: 1,
    });
    // A leaf that changed shows in the root of what was verified; then everything is read, to find which one it is.
    await sealing.tamper(`UPDATE audit.leaves SET leaf_hash = sha256('x') WHERE leaf_index = ${SIZE - 1}`);
    expect(await sealing.verify({ since: last, skipState: true })).toMatchObject({
      fromIndex: 0,
      fault: { code: 'HASH_MISMATCH', index: SIZE - 1 },
    });
  });

  it('verifies as an export without its signatures several times as quick, and says so', async () => {
    const source = await exportSource(sealing.pool, 1);
    const chunks = Readable.from(toBuffers(writeExport(source!)));
    const result = await verifyExport(chunks, { trusted: sealing.trusted, checkSignatures: false });
    expect(result).toMatchObject({ verdict: 'intact', signaturesChecked: false });
  });

  function log() {
    const [key] = sealing.trusted;
    return { logID: key!.keyId, publicKey: key!.publicKey, baseURL: key!.name };
  }

  function entryOf(line: ExportLine, hashes: Buffer[]): SigstoreEntry {
    const { preimage, sealedUs, signature } = new LeafLines(1).read(Buffer.from(JSON.stringify(line)));
    return {
      canonicalizedBody: Buffer.concat([preimage, int8be(sealedUs), signature]),
      inclusionProof: { logIndex: String(line.index), hashes, checkpoint: { envelope: note } },
    };
  }

  function noteEntry(envelope: string) {
    return { inclusionProof: { logIndex: '0', hashes: [], checkpoint: { envelope } } };
  }
});

async function* toBuffers(texts: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const text of texts) yield Buffer.from(text);
}
