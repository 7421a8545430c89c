import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { parseCheckpoint } from '../../../src/audit/format/checkpoint.js';
import { verifyConsistency, verifyInclusion } from '../../../src/audit/format/merkle.js';
import { openNote, verifierKeyText } from '../../../src/audit/format/signed-note.js';
import { resumeLog } from '../../../src/audit/log/resume-log.js';
import { TreeReader } from '../../../src/audit/log/tree-reader.js';
import { TileSource } from '../../../src/audit/tiles/tile-source.js';
import { Watch, type WatchSettings } from '../../../src/audit/watch/watch.js';
import { ownLog, tiledLog } from '../../../src/audit/watch/watched-log.js';
import { witnessKeyText } from '../../../src/audit/witness/cosignature.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Sealing, startSealing } from '../../support/audit.js';
import { orderBody, type ProblemAnswer } from '../../support/builders.js';
import { generateEvents } from '../../support/generate-events.js';
import { withClient } from '../../support/sql.js';
import { waybill } from '../../support/waybill.js';

const EVENTS = 600;

describe('a public log', () => {
  let service: TestApp;
  let sealing: Sealing;
  let prefix: string;
  const setPublic = (what: string) =>
    waybill(['tenant', 'log', 'demo', what], {
      DATABASE_URL: service.database.appUrl,
      MIGRATION_DATABASE_URL: service.database.ownerUrl,
    });
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
    prefix = `${service.baseUrl}/logs/1`;
    await withClient(service.database.superuserUrl, (client) =>
      generateEvents(client, 1, { streams: EVENTS, versions: 1 }),
    );
    await sealing.seal();
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  const get = async (path: string) => {
    const response = await fetch(`${prefix}/${path}`);
    return { response, body: Buffer.from(await response.arrayBuffer()) };
  };
  const checkpoint = async () => parseCheckpoint(openNote(await tiledLog(prefix).checkpoint(), sealing.trusted).text);

  it('is nobody’s until its tenant says so, and looks like one that there is not', async () => {
    const details: string[] = [];
    for (const path of ['1/checkpoint', '1/tile/0/000', '2/checkpoint', '99/checkpoint', 'x/checkpoint']) {
      const answer = (await (await fetch(`${service.baseUrl}/logs/${path}`)).json()) as ProblemAnswer;
      details.push(`${answer.status} ${answer.detail}`);
    }
    expect(new Set(details)).toEqual(new Set(['404 There is no public log with this at this address.']));
  });

  it('is opened by a command, and closed again', async () => {
    expect(await setPublic('public')).toMatchObject({ code: 0, stdout: expect.stringContaining('/logs/1/checkpoint') });
    expect((await get('checkpoint')).response.status).toBe(200);
    expect((await setPublic('private')).code).toBe(0);
    expect((await get('checkpoint')).response.status).toBe(404);
    expect(await setPublic('secret')).toMatchObject({ code: 1, stderr: expect.stringContaining('public or private') });
    expect((await setPublic('public')).code).toBe(0);
    expect((await fetch(`${service.baseUrl}/logs/2/checkpoint`)).status).toBe(404);
  });

  it('has its checkpoint and tiles as C2SP tlog-tiles says, with caching that fits', async () => {
    const { response } = await get('checkpoint');
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('public, max-age=2');
    const { size } = await checkpoint();
    const whole = Math.floor(size / 256);
    const full = await get('tile/0/000');
    expect(full.response.headers.get('content-type')).toBe('application/octet-stream');
    expect(full.response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(full.body).toHaveLength(8192);
    expect((await get(`tile/0/00${whole}.p/${size % 256}`)).body).toHaveLength((size % 256) * 32);
    expect((await get(`tile/1/000.p/${whole}`)).body).toHaveLength(whole * 32);
    // A partial tile of any size that there was.
    expect((await get('tile/0/000.p/3')).body).toEqual(full.body.subarray(0, 96));
  });

  it.each([
    '0/003',
    '0/002',
    '1/000',
    '2/000.p/1',
    '0/002.p/255',
    '0/0',
    'entries/000',
    '0/x000/000',
    '7/000',
    '0/000.p/0',
    '..%2fcheckpoint',
  ])('answers 404 to tile/%s', async (path) => {
    const { response } = await get(`tile/${path}`);
    expect(response.status).toBe(404);
    expect(response.headers.get('cache-control')).not.toContain('immutable');
  });

  it('gives every proof that its own service gives', async () => {
    const { size, root } = await checkpoint();
    const source = new TileSource(size, async (path) => {
      const { response, body } = await get(`tile/${path}`);
      return response.ok ? body : null;
    });
    const reader = new TreeReader(source);
    expect(await reader.root(size)).toEqual(root);
    for (const index of [0, 255, 256, size - 1]) {
      const [leaf] = await source.leafHashes(index, index + 1);
      expect(verifyInclusion(leaf!, index, size, await reader.inclusionProof(index, size), root)).toBe(true);
    }
    for (const from of [1, 255, 256, 257, 512, size - 1]) {
      const proof = await ownLog(service.baseUrl, service.as('viewer').apiKey ?? '').consistencyProof(from, size);
      expect(await tiledLog(prefix).consistencyProof(from, size)).toEqual(proof);
      expect(verifyConsistency(from, await reader.root(from), size, root, proof)).toBe(true);
    }
  });

  it('gives receipts that the command checks with nothing but a key', async () => {
    const [key] = sealing.trusted as [(typeof sealing.trusted)[0]];
    const vkey = verifierKeyText(key.name, key.rawPublicKey);
    const folder = await mkdtemp(join(tmpdir(), 'waybill-receipt-'));
    const file = join(folder, 'event.tlog-proof');
    const { text } = await service.as('viewer').get('/v1/audit/receipt?index=300');
    await writeFile(file, text);
    const verify = (...rest: string[]) => waybill(['audit', 'verify', '--receipt', file, ...rest], {});
    expect(await verify('--vkey', vkey)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^audit\.test\/1: intact\n {2}item\.changed of item\/\d+, version 1/),
    });
    const { stdout } = await verify('--vkey', vkey, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'intact', index: 300, event: { type: 'item.changed' } });
    await writeFile(file, text.replace('\nindex 300\n', '\nindex 301\n'));
    expect(await verify('--vkey', vkey)).toMatchObject({ code: 1, stdout: expect.stringContaining('ROOT_MISMATCH') });
    expect(await verify()).toMatchObject({ code: 2, stderr: expect.stringContaining('--receipt needs --vkey') });
    await rm(folder, { recursive: true });
  });

  describe('is watched by a monitor', () => {
    let folder: string;
    let noteFile: string;
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'waybill-watch-'));
      noteFile = join(folder, 'kept.note');
    });
    afterEach(() => rm(folder, { recursive: true }));
    const watch = (settings: Partial<WatchSettings> = {}) =>
      new Watch({
        log: tiledLog(prefix),
        keys: sealing.trusted,
        witnesses: [],
        quorum: 0,
        noteFile,
        stoppedAfter: null,
        ...settings,
      });
    it('that keeps the largest checkpoint, over tiles and over the service’s own API', async () => {
      await sealing.seal();
      const { size } = await checkpoint();
      expect(await watch().look()).toMatchObject({ size, before: null });
      expect(await watch().look()).toMatchObject({ size, before: size });
      await service.as('operator').post('/v1/orders', orderBody());
      await sealing.seal();
      expect(await watch().look()).toMatchObject({ size: size + 1, before: size });
      await service.as('operator').post('/v1/orders', orderBody());
      await sealing.seal();
      const own = ownLog(service.baseUrl, service.as('viewer').apiKey ?? '');
      expect(await watch({ log: own }).look()).toMatchObject({ size: size + 2, before: size + 1 });
      expect(parseCheckpoint(openNote(await readFile(noteFile, 'utf8'), sealing.trusted).text).size).toBe(size + 2);
    });

    it('that runs as a command: exit code 0 while all is well, 2 where there is no answer', async () => {
      const [{ name, rawPublicKey }] = sealing.trusted as [(typeof sealing.trusted)[0]];
      const vkey = verifierKeyText(name, rawPublicKey);
      const command = (...rest: string[]) =>
        waybill(['audit', 'watch', '--vkey', vkey, '--note', noteFile, '--once', ...rest], {});
      expect(await command('--url', `${prefix}/`)).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(`${name}: `),
      });
      expect(await command('--url', 'http://127.0.0.1:9')).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('UNREADABLE'),
      });
      const witness = witnessKeyText('w1', rawPublicKey);
      expect(await command('--url', prefix, '--witness', witness)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('NOT_WITNESSED'),
      });
      expect(await command('--service', prefix)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('WAYBILL_API_KEY'),
      });
    });
  });

  it('ends at its address when it was restored, and goes on at another one; the feed says so', async () => {
    const feed = async (query: string) =>
      (await service.as('viewer').get<{ next: number; origin: string; originFrom: number }>(`/v1/audit/events${query}`))
        .body;
    const { size } = await checkpoint();
    const abandoned = await tiledLog(prefix).checkpoint();
    await sealing.tamper(`
      DELETE FROM audit.leaves WHERE tenant_id = 1 AND leaf_index >= 501;
      DELETE FROM audit.checkpoints WHERE tenant_id = 1 AND size > 501;
      DELETE FROM audit.queue`);
    const { body } = await service.as('viewer').get<ProblemAnswer>(`/v1/audit/events?after=${size - 1}`);
    expect(body).toMatchObject({ status: 400, detail: expect.stringContaining('The log has 501 events') });
    expect(await feed('?limit=1')).toMatchObject({ origin: 'audit.test/1', originFrom: 0 });

    await resumeLog(sealing.tools, 1, abandoned);
    expect(await feed('?after=500')).toMatchObject({ next: 501, origin: 'audit.test/1/2', originFrom: 501 });
    for (const path of ['checkpoint', 'tile/0/000']) {
      const ended = (await (await fetch(`${prefix}/${path}`)).json()) as ProblemAnswer;
      expect(ended).toMatchObject({ status: 404, detail: expect.stringContaining('goes on at /logs/1/2/') });
    }
    const next = tiledLog(`${prefix}/2`);
    expect(parseCheckpoint((await next.checkpoint()).split('\n\n')[0] + '\n')).toMatchObject({
      origin: 'audit.test/1/2',
      size: 502,
    });
    expect(await next.consistencyProof(300, 502)).not.toEqual([]);
    for (const path of ['1/checkpoint', '3/checkpoint', '02/checkpoint', '3/tile/0/000'])
      expect((await fetch(`${prefix}/${path}`)).status).toBe(404);
  });
});
