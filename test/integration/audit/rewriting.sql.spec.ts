import { cp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { CheckpointDirectory } from '../../../src/audit/log/checkpoint-directory.js';
import { KnownEdges } from '../../../src/audit/log/known-edges.js';
import { LogStore } from '../../../src/audit/log/log-store.js';
import { publishCheckpoint } from '../../../src/audit/log/publish-checkpoint.js';
import { sealBatch, type SealingTools } from '../../../src/audit/log/seal-batch.js';
import { verifiedKeys } from '../../../src/audit/log/verified-keys.js';
import { judgeCheckpoints } from '../../../src/cli/doctor/judge-checkpoints.js';
import { withClient } from '../../../src/database/client.js';
import { inPoolTransaction } from '../../../src/database/transaction.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, EVENTS_OF_A_START, type Sealing, startSealing } from '../../support/audit.js';
import { orderBody } from '../../support/builders.js';
import { copyDatabase, type TestDatabase } from '../../support/database.js';

/** Leaves before the first of four orders: the event that starts the log, and what the tenant has to tell of itself. */
const FIRST = 1 + EVENTS_OF_A_NEW_TENANT;
/** Leaves of the log that is rewritten. */
const SIZE = FIRST + 4;
/** Those of its checkpoints. */
const SIZES = [0, FIRST, FIRST + 1, FIRST + 2, FIRST + 3, SIZE];
/** Leaves that stay as they were. */
const KEPT = SIZE - 2;

describe('history that a superuser rewrites and has sealed again', () => {
  /** What each test gets a copy of: four orders, sealed one by one. */
  let original: TestApp;
  let intact: Sealing;
  let database: TestDatabase;
  let sealing: Sealing;
  /** The last note, as somebody kept it elsewhere. */
  let kept: string;
  beforeAll(async () => {
    original = await startTestApp();
    intact = await startSealing(original.database);
    await intact.seal();
    for (let placed = 0; placed < 4; placed += 1) {
      await original.as('operator').post('/v1/orders', orderBody());
      await intact.seal();
    }
    kept = (await intact.directory.read(1)) ?? '';
    await intact.pool.end();
    await original.app.close();
  });
  afterAll(async () => {
    await original.database.drop();
    await rm(intact.directory.path, { recursive: true, force: true });
  });
  beforeEach(async () => {
    database = await copyDatabase(original.database);
    sealing = await startSealing(database, intact.pem);
    await cp(intact.directory.path, sealing.directory.path, { recursive: true });
  });
  afterEach(async () => {
    await sealing.close();
    await database.drop();
  });

  /** A sealer that has seen nothing of before. */
  const restarted = (changes: Partial<SealingTools> = {}): SealingTools => ({
    ...sealing.tools,
    directory: new CheckpointDirectory(sealing.directory.path),
    edges: new KnownEdges(),
    ...changes,
  });
  const filesOfLog = (): Promise<string[]> => readdir(join(sealing.directory.path, '1/1/0'));
  const leaves = async (): Promise<number> => {
    const [row] = await sealing.sql<{ count: number }>('SELECT count(*) FROM audit.leaves WHERE tenant_id = 1');
    return Number(row?.count);
  };

  /** Back to the checkpoint of three leaves; what came after is edited, hashed anew, and waits to be sealed once more. */
  async function rewrite(): Promise<void> {
    await sealing.tamper(`
      CREATE TEMP TABLE late AS SELECT stream FROM audit.leaves WHERE tenant_id = 1 AND leaf_index >= ${KEPT};
      DELETE FROM audit.leaves WHERE tenant_id = 1 AND leaf_index >= ${KEPT};
      DELETE FROM audit.checkpoints WHERE tenant_id = 1 AND size > ${KEPT};
      UPDATE audit.events SET body = replace(body, 'Green tea', 'Black tea'), occurred_us = occurred_us - 3 * 86400000000
      WHERE tenant_id = 1 AND stream IN (SELECT stream FROM late);
      UPDATE audit.events SET event_hash = audit.event_hash(tenant_id, event_id, stream, version, occurred_us, type, actor, body,
        prev_hash, format) WHERE tenant_id = 1 AND stream IN (SELECT stream FROM late);
      INSERT INTO audit.queue SELECT tenant_id, stream, version, occurred_us FROM audit.events
      WHERE tenant_id = 1 AND stream IN (SELECT stream FROM late);
      DROP TABLE late`);
  }

  it('begins with a note for each size, from the empty log on, all of which stay', async () => {
    expect((await filesOfLog()).map(Number).toSorted((one, other) => one - other)).toEqual(SIZES);
    const notes = [];
    for await (const { size, note } of sealing.directory.notes(1)) notes.push([size, note]);
    expect(notes.map(([size]) => size)).toEqual(SIZES);
    expect(notes.at(-1)).toEqual([SIZE, kept]);
    expect(await sealing.directory.tenants()).toEqual([1]);
  });

  it('is refused while its published checkpoints are there, and found by verification', async () => {
    await rewrite();
    for (const tools of [sealing.tools, restarted()])
      await expect(sealBatch(tools, 1)).rejects.toThrow(`its ${KEPT} leaves are fewer than the ${SIZE} published`);
    expect(await leaves()).toBe(KEPT);
    expect(await sealing.verify({ skipState: true })).toMatchObject({
      verdict: 'tampered',
      fault: { code: 'SIZE_BELOW_CHECKPOINT' },
    });
  });

  it('is missed by verification where what was published is gone, all of it or the newest', async () => {
    const missing = { verdict: 'tampered', fault: { code: 'MISSING_CHECKPOINT' } };
    const verifyAnew = () => sealing.verify({ directory: new CheckpointDirectory(sealing.directory.path) });
    expect(await verifyAnew()).toMatchObject({ verdict: 'intact' });
    await rm(join(sealing.directory.path, '1/1/0', String(SIZE)));
    expect(await verifyAnew()).toMatchObject(missing);
    await rm(join(sealing.directory.path, '1'), { recursive: true });
    expect(await verifyAnew()).toMatchObject(missing);
  });

  it('is refused where the published checkpoints are gone, until somebody says that it is a first publication', async () => {
    await rewrite();
    await rm(join(sealing.directory.path, '1'), { recursive: true });
    await expect(sealBatch(restarted(), 1)).rejects.toThrow(`it has ${KEPT} leaves, and nothing of it is published`);
    await expect(publishCheckpoint(restarted(), 1)).rejects.toThrow('waybill audit publish --first --tenant 1');
    expect(await leaves()).toBe(KEPT);

    const first = restarted({ isFirstPublication: true });
    expect(await sealBatch(first, 1)).toBe(2);
    await publishCheckpoint(first, 1);
    // Now it is what the keys signed. The time of sealing stands out all the same, and whoever kept a note knows.
    const result = await sealing.verify({ skipState: true, directory: first.directory! });
    expect(result.late).toMatchObject({ count: 2, firstIndex: KEPT });
    expect(result.late?.greatestSeconds).toBeGreaterThan(2 * 86_400);
    expect(await sealing.verify({ skipState: true, directory: null, checkpoints: [kept] })).toMatchObject({
      verdict: 'tampered',
      fault: { code: 'INCONSISTENT' },
    });
  });

  it('is refused where only the newest checkpoints are gone: a sealer that runs knows them, and one that starts is told', async () => {
    await sealing.directory.last(1);
    await rewrite();
    for (const size of [SIZE - 1, SIZE]) await rm(join(sealing.directory.path, '1/1/0', String(size)));
    await expect(sealBatch(restarted(), 1)).rejects.toThrow(/latest is of (\d+) leaves, and .*\/1\/1\/0\/\1 is gone/);
    await rm(join(sealing.directory.path, '1/1/latest'));
    await expect(sealBatch(sealing.tools, 1)).rejects.toThrow(
      /the checkpoint of \d+ leaves was published in .* is gone/,
    );
    await rm(join(sealing.directory.path, '1'), { recursive: true });
    await expect(sealBatch(sealing.tools, 1)).rejects.toThrow(
      /the checkpoint of \d+ leaves was published in .* is gone/,
    );
    expect(await leaves()).toBe(KEPT);
  });

  it.each<[string, string, string]>([
    [
      'leaves that are sealed already',
      `UPDATE audit.leaves SET leaf_hash = sha256('x') WHERE tenant_id = 1 AND leaf_index = 1`,
      'are not what its last checkpoint',
    ],
    [
      'the last checkpoint',
      `UPDATE audit.checkpoints SET note = replace(note, E'\\n${SIZE}\\n', E'\\n${SIZE + 1}\\n') WHERE tenant_id = 1 AND size = ${SIZE}`,
      `its last checkpoint (${SIZE}) is not one that this key signed`,
    ],
    [
      'the last checkpoint, by an older one that was signed',
      `UPDATE audit.checkpoints SET note = (SELECT note FROM audit.checkpoints WHERE tenant_id = 1 AND size = ${SIZE - 1}) WHERE tenant_id = 1 AND size = ${SIZE}`,
      `its last checkpoint (${SIZE}) is of other leaves`,
    ],
    [
      'the keys that the database names',
      `UPDATE audit.keys SET event_key = sha256('x') WHERE tenant_id = 1`,
      'is sealed with another key',
    ],
    ['the name of the log', `UPDATE audit.logs SET origin = 'audit.test/7' WHERE tenant_id = 1`, 'Set it back'],
  ])('is refused when it changes %s', async (_, sql, message) => {
    await sealing.tamper(sql);
    await expect(sealBatch(restarted(), 1)).rejects.toThrow(message);
  });

  it('is refused when it says itself that the log was restored', async () => {
    await rewrite();
    const resume = `
      INSERT INTO audit.events SELECT 1, gen_random_uuid(), 'log/1', 2, e.occurred_us, 'log.resumed', e.actor, b.body, e.event_hash,
        audit.event_hash(1, gen_random_uuid(), 'log/1', 2, e.occurred_us, 'log.resumed', e.actor, b.body, e.event_hash, 1::smallint), 1
      FROM audit.events e, LATERAL (SELECT jsonb_build_object('snapshot', jsonb_build_object('abandoned', '${kept}'))::text AS body) b
      WHERE e.tenant_id = 1 AND e.stream = 'log/1' AND e.version = 1`;
    const columns =
      'tenant_id, event_id, stream, version, occurred_us, type, actor, body, prev_hash, event_hash, format';
    const event = resume.replace('INSERT INTO audit.events', `INSERT INTO audit.events (${columns})`);
    // With a leaf, as if it were sealed, and the row that names the next generation.
    await sealing.tamper(`${event};
      INSERT INTO audit.keys (tenant_id, generation, valid_from, checkpoint_key, event_key)
      SELECT 1, 2, ${KEPT}, checkpoint_key, event_key FROM audit.keys WHERE tenant_id = 1;
      INSERT INTO audit.leaves SELECT 1, ${KEPT}, 'log/1', 2, sealed_us, signature, sha256('x') FROM audit.leaves WHERE tenant_id = 1 AND leaf_index = ${KEPT - 1}`);
    await expect(sealBatch(restarted(), 1)).rejects.toThrow('are not what its last checkpoint');
    // And without, waiting for the sealer to sign it.
    await sealing.tamper(`DELETE FROM audit.keys WHERE generation = 2; DELETE FROM audit.leaves WHERE leaf_index = ${KEPT};
      INSERT INTO audit.queue VALUES (1, 'log/1', 2, 0)`);
    await rm(join(sealing.directory.path, '1'), { recursive: true });
    await expect(sealBatch(restarted({ isFirstPublication: true }), 1)).rejects.toThrow(
      'somebody queued an event about the log itself',
    );
  });

  it('is seen by doctor, which compares folder and database', async () => {
    const look = async (): Promise<string[]> => {
      const findings = await withClient({ connectionString: database.sealerUrl }, (client) =>
        judgeCheckpoints(client, { path: sealing.directory.path, isDefault: true }),
      );
      return findings.filter(({ verdict }) => verdict === 'fault').map(({ detail }) => detail);
    };
    const file = (name: string): string => join(sealing.directory.path, '1/1', name);
    expect(await look()).toEqual([]);
    await rm(file(`0/${SIZE}`));
    expect(await look()).toEqual([expect.stringContaining(`1/1/0/${SIZE} is gone`)]);
    await rm(file('latest'));
    await sealing.tamper(`UPDATE audit.checkpoints SET created_at = now() - interval '1 hour' WHERE tenant_id = 1`);
    expect(await look()).toEqual([expect.stringMatching(/leaves, and for 36\d\d s only \d+ are published/)]);
    await rewrite();
    expect(await look()).toEqual([expect.stringContaining(`has ${KEPT} leaves, fewer than the ${SIZE - 1} in`)]);
    await rm(join(sealing.directory.path, '1'), { recursive: true });
    expect(await look()).toEqual([expect.stringContaining('nothing of the log of tenant 1 is published')]);
    await cp(intact.directory.path, sealing.directory.path, { recursive: true });
    await sealing.tamper('DELETE FROM audit.logs');
    expect(await look()).toEqual(['checkpoints of tenant 1 are published, and the database has no log of it']);
  });

  it('is not published over what another database with the same keys published', async () => {
    // A copy of the database that goes on by itself, and publishes into the same folder.
    const copy = await copyDatabase(database);
    const other = await startSealing(copy, sealing.pem);
    try {
      for (const [target, name] of [
        [database, 'one'],
        [copy, 'other'],
      ] as const) {
        const service = await startTestApp({ database: target });
        await service.as('operator').post('/v1/orders', orderBody({ metadata: { name } }));
        await service.close();
      }
      await sealing.seal();
      await expect(sealBatch({ ...other.tools, directory: restarted().directory }, 1)).rejects.toThrow(
        `its ${SIZE} leaves are fewer than the ${SIZE + EVENTS_OF_A_START + 1} published`,
      );
      // Elsewhere it would have been the first.
      Object.assign(other.tools, { isFirstPublication: true });
      await other.seal();
      await expect(sealing.directory.publish(1, (await other.directory.last(1))!)).rejects.toThrow(
        `another checkpoint of ${SIZE + EVENTS_OF_A_START + 1} leaves is in`,
      );
    } finally {
      await other.close();
      await copy.drop();
    }
  });

  it('hands out no key that only the table of keys names', async () => {
    const keysOf = (held: Sealing['tools']['keys'] | null, vkeys: string[] = []) =>
      inPoolTransaction(sealing.pool, (client) => verifiedKeys(new LogStore(client, 1), held, vkeys));
    const before = await keysOf(sealing.tools.keys);
    expect(before).toMatchObject([{ origin: 'audit.test/1', validFrom: 0 }]);
    await sealing.tamper(`INSERT INTO audit.keys (tenant_id, generation, valid_from, checkpoint_key, event_key)
      VALUES (1, 1, ${SIZE}, sha256('mine'), sha256('mine too'))`);
    expect(await keysOf(sealing.tools.keys)).toEqual(before);
    await expect(keysOf(null)).rejects.toThrow('Nobody here vouches for the keys of tenant 1');
    await sealing.tamper(`UPDATE audit.events SET body = replace(body, 'audit.test/1', 'audit.test/8')
      WHERE tenant_id = 1 AND stream = 'log/1'`);
    await expect(keysOf(sealing.tools.keys)).rejects.toThrow('leaf 0');
  });

  it('is published only with what witnesses add, and goes on being sealed without them', async () => {
    const service = await startTestApp({ database });
    await service.as('operator').post('/v1/orders', orderBody());
    await service.close();
    let isAway = true;
    const asked: [string, number, number][] = [];
    const tools = restarted({
      cosign: async (origin, { note, size, proofFrom }) => {
        asked.push([origin, size, (await proofFrom(KEPT)).length]);
        if (isAway) throw new Error('too few witnesses');
        return `${note}— witness.test AAAAAAAA\n`;
      },
    });
    expect(await sealBatch(tools, 1)).toBe(EVENTS_OF_A_START + 1);
    await expect(publishCheckpoint(tools, 1)).rejects.toThrow('too few witnesses');
    expect(await sealing.directory.read(1)).toBe(kept);
    isAway = false;
    await publishCheckpoint(tools, 1);
    expect(await sealing.directory.read(1)).toMatch(/^audit\.test\/1\n26\n[^]*\n— witness\.test AAAAAAAA\n$/);
    await publishCheckpoint(tools, 1);
    expect(asked).toEqual([
      ['audit.test/1', SIZE + EVENTS_OF_A_START + 1, expect.any(Number)],
      ['audit.test/1', SIZE + EVENTS_OF_A_START + 1, expect.any(Number)],
    ]);
    expect(await sealBatch(tools, 1)).toBe(0);
  });
});
