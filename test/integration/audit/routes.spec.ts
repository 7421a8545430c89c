import { request } from 'node:http';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { verifyReceipt } from '../../../clients/typescript/src/index.js';
import { parseCheckpoint } from '../../../src/audit/format/checkpoint.js';
import { verifyConsistency, verifyInclusion } from '../../../src/audit/format/merkle.js';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { openNote, verifierKeyText } from '../../../src/audit/format/signed-note.js';
import { LogGrowth } from '../../../src/audit/log/log-growth.js';
import { verifyExport } from '../../../src/audit/verify/verify-export.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, sealerSettings, startSealing, verifierKeyOf } from '../../support/audit.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { eventually } from '../../support/waiting.js';

interface Event {
  stream: string;
  version: number;
  eventHash: string;
  signature: string | null;
  logIndex: number | null;
}
interface Feed {
  data: Event[];
  next: number | null;
}

describe('the routes of the audit log', () => {
  const pem = generateSigningKey();
  const key = verifierKeyOf(pem);
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp({ env: await sealerSettings(pem) });
  });
  afterAll(() => service.close());

  const place = async (): Promise<Order> => (await service.as('operator').post<Order>('/v1/orders', orderBody())).body;
  const feed = async (query = ''): Promise<Feed> =>
    (await service.as('auditor').get<Feed>(`/v1/audit/events${query}`)).body;
  /** Waits until the log holds so many events beside those of a new tenant. */
  const sealed = (count: number) =>
    eventually(async () => (await feed('?limit=500')).data.length >= EVENTS_OF_A_NEW_TENANT + count);
  const untilWaiting = (readers: number) => eventually(() => service.app.get(LogGrowth).waiters === readers);
  const hex = (text: string): Buffer => Buffer.from(text, 'hex');

  it('let whoever may read orders follow their events and check what they keep', async () => {
    await place();
    await eventually(async () => (await service.as('viewer').get('/v1/audit/checkpoints/latest')).status === 200);
    for (const role of ['viewer', 'operator', 'auditor', 'admin']) {
      for (const path of ['events', 'checkpoints/latest', 'proofs/inclusion?index=0', 'proofs/consistency?from=1'])
        expect([role, path, (await service.as(role).get(`/v1/audit/${path}`)).status]).toEqual([role, path, 200]);
    }
  });

  it('keep the whole history and its verification for auditors and administrators', async () => {
    for (const role of ['viewer', 'operator']) {
      for (const path of ['verification', 'export']) {
        const answer = await service.as(role).get<ProblemAnswer>(`/v1/audit/${path}`);
        expect(answer.body).toMatchObject({ status: 403, code: 'role-required', roles: ['auditor', 'admin'] });
      }
    }
    expect((await service.as('viewer').post('/v1/audit/verification', undefined)).status).toBe(403);
  });

  it('name the size to a reader of the feed who is beyond it, and make nobody wait for what will not come', async () => {
    const { next } = await feed('?limit=500');
    const size = (next ?? 0) + 1;
    const started = Date.now();
    for (const after of [size, size + 1000]) {
      const { body } = await service.as('viewer').get<ProblemAnswer>(`/v1/audit/events?after=${after}&wait=30`);
      expect(body).toMatchObject({ status: 400, code: 'invalid-parameter', errors: [{ parameter: 'after' }] });
      expect(body.detail).toContain(`The log has ${size} events; ${after} is beyond its last one, ${size - 1}.`);
    }
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  it('say so when nothing was sealed yet', async () => {
    const unsealed = await startTestApp({ env: { AUDIT_SEAL_INTERVAL: 'off' } });
    const other = unsealed.asOther('auditor');
    const beyond = await other.get<ProblemAnswer>('/v1/audit/events?after=0');
    expect(beyond.body.detail).toContain('The log has no events');
    for (const path of [
      'checkpoints/latest',
      'proofs/inclusion?index=0',
      'proofs/consistency?from=1',
      'verification',
      'export',
    ])
      expect((await other.get(`/v1/audit/${path}`)).body).toMatchObject({ code: 'not-found' });
    expect((await other.get<Feed>('/v1/audit/events')).body).toEqual({
      data: [],
      next: null,
      origin: null,
      originFrom: null,
    });
    await unsealed.close();
  });

  it("show an order's events with signature and place in the log, null until they are sealed", async () => {
    const { id, eventHash } = await place();
    const [event] = await eventually(async () => {
      const { data } = (await service.as('viewer').get<Feed>(`/v1/orders/${id}/events`)).body;
      if (data[0]?.logIndex === null) expect(data[0]).toMatchObject({ signature: null });
      return typeof data[0]?.logIndex === 'number' && data;
    });
    expect(event).toMatchObject({ eventHash, version: 1 });
    expect(Buffer.from(event?.signature ?? '', 'base64')).toHaveLength(64);
  });

  it('feed every event once, in an order without gaps, page by page', async () => {
    for (let count = 0; count < 9; count += 1) await place();
    await sealed(10);
    const seen: Event[] = [];
    for (let page = await feed('?limit=3'); page.data.length > 0; page = await feed(`?limit=3&after=${page.next}`))
      seen.push(...page.data);
    expect(seen.map(({ logIndex }) => logIndex)).toEqual(seen.map((_, at) => at));
    expect(new Set(seen.map(({ stream }) => stream)).size).toBe(seen.length);
  });

  it('answer a waiting reader as soon as there is something', async () => {
    const { next } = await feed('?limit=500');
    const started = Date.now();
    const waiting = feed(`?after=${next}&wait=30`);
    await untilWaiting(1);
    const { id } = await place();
    expect((await waiting).data[0]).toMatchObject({ stream: `order/${id}`, logIndex: (next ?? 0) + 1 });
    // Long before the waiting would have been over.
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  it('answer an empty list when the waiting was in vain', async () => {
    const { next } = await feed('?limit=500');
    const started = Date.now();
    expect(await feed(`?after=${next}&wait=1`)).toEqual({ data: [], next, origin: 'audit.test/1', originFrom: 0 });
    expect(Date.now() - started).toBeGreaterThanOrEqual(1000);
  });

  it('hold no connection for those who wait: many more of them than the pool has, and others are still served', async () => {
    const { next } = await feed('?limit=500');
    const waiting = Array.from({ length: 40 }, () => feed(`?after=${next}&wait=30`));
    await untilWaiting(40);
    const { id } = await place();
    for (const { data } of await Promise.all(waiting)) expect(data[0]?.stream).toBe(`order/${id}`);
  });

  it('forget a waiting reader whose client is gone', async () => {
    const { next } = await feed('?limit=500');
    const url = new URL(`/v1/audit/events?after=${next}&wait=30`, service.baseUrl);
    const abandoned = request(url, { headers: { authorization: `Bearer ${service.as('auditor').apiKey}` } });
    abandoned.once('error', () => undefined);
    abandoned.end();
    await untilWaiting(1);
    abandoned.destroy();
    // Long before the waiting would have been over.
    await eventually(() => service.app.get(LogGrowth).waiters === 0, 20_000);
  });

  it('give the checkpoint as a signed note in plain text', async () => {
    const answer = await service.as('auditor').get('/v1/audit/checkpoints/latest');
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    const { size } = parseCheckpoint(openNote(answer.text, [key]).text);
    expect(size).toBeGreaterThan(10);
  });

  it('prove that the receipt of a write is in the log', async () => {
    const order = await place();
    const proof = await eventually(async () => {
      const answer = await service
        .as('auditor')
        .get<{ index: number; size: number; leafHash: string; root: string; proof: string[] }>(
          `/v1/audit/proofs/inclusion?stream=order/${order.id}&version=1`,
        );
      return answer.status === 200 && answer.body;
    });
    const { root, size } = parseCheckpoint(
      openNote((await service.as('auditor').get('/v1/audit/checkpoints/latest')).text, [key]).text,
    );
    expect(proof).toMatchObject({ size, root: root.toString('hex') });
    const [event] = (await feed(`?after=${proof.index - 1}&limit=1`)).data;
    expect(event?.eventHash).toBe(order.eventHash);
    const siblings = proof.proof.map(hex);
    expect(verifyInclusion(hex(proof.leafHash), proof.index, size, siblings, root)).toBe(true);
    expect(verifyInclusion(hex(proof.leafHash), proof.index - 1, size, siblings, root)).toBe(false);
  });

  it('prove that a later checkpoint contains an earlier one', async () => {
    const before = parseCheckpoint(
      openNote((await service.as('auditor').get('/v1/audit/checkpoints/latest')).text, [key]).text,
    );
    await place();
    await sealed(before.size + 1 - EVENTS_OF_A_NEW_TENANT);
    const { body } = await service
      .as('auditor')
      .get<{ to: number; toRoot: string; proof: string[] }>(`/v1/audit/proofs/consistency?from=${before.size}`);
    expect(verifyConsistency(before.size, before.root, body.to, hex(body.toRoot), body.proof.map(hex))).toBe(true);
  });

  it('give a receipt that the client checks offline, for the very event that a write was answered with', async () => {
    const order = await place();
    const path = `/v1/audit/receipt?stream=order/${order.id}&version=1`;
    const answer = await eventually(async () => {
      const given = await service.as('viewer').get(path);
      return given.status === 200 && given;
    });
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(answer.headers.get('content-disposition')).toMatch(/^attachment; filename="event-\d+\.tlog-proof"$/);
    const { event, index } = await verifyReceipt(answer.text, { keys: [verifierKeyText(key.name, key.rawPublicKey)] });
    expect(event).toMatchObject({ eventHash: order.eventHash, type: 'order.created', tenantId: 1 });
    expect((await service.as('viewer').get(`/v1/audit/receipt?index=${index}`)).text).toContain('\nindex ');
    // A receipt of another tenant's event is none of this one's.
    expect((await service.asOther('viewer').get<ProblemAnswer>(path)).body).toMatchObject({ code: 'not-found' });
  });

  it.each([
    ['receipt', 400, 'invalid-parameter'],
    ['receipt?index=100000', 404, 'not-found'],
    ['receipt?stream=order/none&version=1', 404, 'not-found'],
    ['proofs/inclusion', 400, 'invalid-parameter'],
    ['proofs/inclusion?index=0&stream=order/1&version=1', 400, 'invalid-parameter'],
    ['proofs/inclusion?stream=order/1', 400, 'invalid-parameter'],
    ['proofs/inclusion?index=100000', 400, 'invalid-parameter'],
    ['proofs/inclusion?index=0&size=100000', 400, 'invalid-parameter'],
    ['proofs/inclusion?index=5&size=5', 400, 'invalid-parameter'],
    ['proofs/inclusion?stream=order/none&version=1', 404, 'not-found'],
    ['proofs/consistency', 400, 'invalid-parameter'],
    ['proofs/consistency?from=0', 400, 'invalid-parameter'],
    ['proofs/consistency?from=5&to=4', 400, 'invalid-parameter'],
    ['proofs/consistency?from=1&to=100000', 400, 'invalid-parameter'],
    ['events?after=-1', 400, 'invalid-parameter'],
    ['events?wait=31', 400, 'invalid-parameter'],
    ['events?limit=501', 400, 'invalid-parameter'],
    ['events?since=1', 400, 'unknown-parameter'],
  ])('refuse %s with %i', async (path, status, code) => {
    expect((await service.as('auditor').get<ProblemAnswer>(`/v1/audit/${path}`)).body).toMatchObject({ status, code });
  });

  it('export a log that anybody with the public key can verify', async () => {
    const answer = await service.as('admin').get('/v1/audit/export');
    expect(answer.headers.get('content-type')).toBe('application/x-ndjson');
    const result = await verifyExport(chunksOf(answer.text), { trusted: [key] });
    const { size } = parseCheckpoint(
      openNote((await service.as('auditor').get('/v1/audit/checkpoints/latest')).text, [key]).text,
    );
    expect(result).toMatchObject({ verdict: 'intact', fault: null, size, tenantId: 1 });
    expect(answer.text.split('\n')).toHaveLength(size + 2);
  });

  it('verify the whole history on demand, and keep the result', async () => {
    const started = await service.as('auditor').post<{ id: string }>('/v1/audit/verification', undefined);
    expect(started.status).toBe(202);
    const result = await eventually(async () => {
      const { body } = await service
        .as('auditor')
        .get<{ id: string; verdict: string; fault: null; size: number }>('/v1/audit/verification');
      return body.id === started.body.id && body;
    });
    expect(result).toMatchObject({ verdict: 'intact', fault: null, signaturesChecked: true, breaks: [], fromIndex: 0 });
    expect(result.size).toBeGreaterThan(10);
  });

  it("show nothing of another tenant's log", async () => {
    const { body } = await service.asOther('operator').post<Order>('/v1/orders', orderBody());
    const events = await eventually(async () => {
      const { data } = (await service.asOther('viewer').get<Feed>('/v1/audit/events')).body;
      return data.some(({ stream }) => stream.startsWith('order/')) && data;
    });
    expect(events[0]).toMatchObject({ stream: 'log/2', type: 'log.started', logIndex: 0 });
    expect(events.filter(({ stream }) => stream.startsWith('order/')).map(({ stream }) => stream)).toEqual([
      `order/${body.id}`,
    ]);
  });
});

describe('a service that stops', () => {
  it('answers those who wait for the feed, and does not wait for them', async () => {
    const service = await startTestApp({ env: await sealerSettings() });
    // The client reads the API document at its first answer, and afterwards there would be none.
    const last = await eventually(async () => {
      const { next } = (await service.as('auditor').get<Feed>('/v1/audit/events')).body;
      return next === EVENTS_OF_A_NEW_TENANT && next;
    });
    const waiting = service.as('auditor').get<Feed>(`/v1/audit/events?after=${last}&wait=30`);
    await eventually(() => service.app.get(LogGrowth).waiters === 1);
    const started = Date.now();
    await service.close();
    expect((await waiting).body).toMatchObject({ data: [], next: last });
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  it('finishes the batch that it is sealing', async () => {
    const service = await startTestApp({ env: await sealerSettings() });
    for (let count = 0; count < 20; count += 1) await service.as('operator').post('/v1/orders', orderBody());
    await service.app.close();
    const sealing = await startSealing(service.database);
    const [row] = await sealing.sql<{ same: boolean }>(
      'SELECT (SELECT count(*) FROM audit.leaves) + (SELECT count(*) FROM audit.queue) = (SELECT count(*) FROM audit.events) AS same',
    );
    expect(row?.same).toBe(true);
    await sealing.close();
    await service.database.drop();
  });
});

function chunksOf(text: string): AsyncIterable<Buffer> {
  return Readable.from([Buffer.from(text)]);
}
