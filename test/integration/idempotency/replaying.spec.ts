import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { externalRefTaken } from '../../../src/orders/index.js';
import { DomainError } from '../../../src/problems/index.js';
import type { Answer } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { createNotesTable, interfere, type Note, notes, NotesModule } from '../../support/notes.js';
import { actorOf, inTransaction, rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp({ extensions: [NotesModule] });
  await createNotesTable(service.database.superuserUrl);
});
afterAll(() => service.close());
afterEach(() => interfere());

const KEPT = ['content-type', 'location', 'etag'];

/** Sends the same request twice under a new key. */
async function twice<Body>(send: (headers: Record<string, string>) => Promise<Answer<Body>>) {
  const headers = { 'idempotency-key': randomUUID() };
  return [await send(headers), await send(headers)] as const;
}

function expectReplay(first: Answer, second: Answer): void {
  expect(second.status).toBe(first.status);
  expect(second.text).toBe(first.text);
  for (const name of KEPT) expect(second.headers.get(name)).toBe(first.headers.get(name));
  expect(first.headers.get('idempotency-replayed')).toBeNull();
  expect(first.headers.get('idempotency-created-at')).toBeNull();
  expect(second.headers.get('idempotency-replayed')).toBe('true');
  expect(second.headers.get('idempotency-created-at')).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  expect(second.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
}

describe('a retry with the same key', () => {
  it('of a placed order gets the same status, bytes, Content-Type, Location and ETag', async () => {
    const body = orderBody({ metadata: { text: 'ünïcode \u2028 "quoted"', nested: { b: [1, 2], a: null } } });
    const [first, second] = await twice((key) => service.as('operator').post<Order>('/v1/orders', body, key));
    expect(first.status).toBe(201);
    expect(first.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(first.headers.get('location')).toBe(`/v1/orders/${first.body.id}`);
    expect(first.headers.get('etag')).toBe('"1"');
    expectReplay(first, second);
  });

  it('doesn’t run the handler again', async () => {
    let runs = 0;
    interfere(() => void (runs += 1));
    const [first, second] = await twice((key) => service.as('operator').post('/v1/notes', { text: 'once' }, key));
    expectReplay(first, second);
    expect(runs).toBe(1);
  });

  it('never repeats a cookie, a date or any other header', async () => {
    interfere((_tx, reply) => {
      reply.headers({ 'set-cookie': 'session=1', 'x-other': 'once', 'ratelimit-remaining': '7' });
    });
    const [first, second] = await twice((key) => service.as('operator').post('/v1/notes', { text: 'cookie' }, key));
    for (const name of ['set-cookie', 'x-other', 'ratelimit-remaining']) {
      expect(first.headers.get(name)).not.toBeNull();
      expect(second.headers.get(name)).toBeNull();
    }
    expectReplay(first, second);
  });

  it('of a transition gets the answer of then, though the order has moved on', async () => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    const path = `/v1/orders/${placed.body.id}/transitions`;
    const key = { 'idempotency-key': randomUUID() };
    const first = await service.as('operator').post<Order>(path, { to: 'confirmed' }, key);
    await service.as('operator').post(path, { to: 'shipped' });
    const second = await service.as('operator').post<Order>(path, { to: 'confirmed' }, key);
    expect(second.body.status).toBe('confirmed');
    expectReplay(first, second);
  });

  it('of a patch comes before If-Match is looked at', async () => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    const headers = { 'idempotency-key': randomUUID(), 'if-match': '"1"' };
    const patch = () =>
      service.as('operator').patch<Order>(`/v1/orders/${placed.body.id}`, { metadata: { a: 1 } }, headers);
    const first = await patch();
    expect(first.status).toBe(200);
    expect(first.headers.get('etag')).toBe('"2"');
    expectReplay(first, await patch());
  });

  it('is refused when the caller has lost the right meanwhile', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const send = () => service.as('operator').post('/v1/notes', { text: 'rights' }, headers);
    expect((await send()).status).toBe(201);
    const user = await actorOf(service, 'operator');
    const setRoles = (roles: string[]) => service.as('admin').patch(`/v1/users/${user}`, { roles });
    expect((await setRoles(['viewer'])).status).toBe(200);
    const refused = await send();
    expect((await setRoles(['operator'])).status).toBe(200);
    expect(refused.status).toBe(403);
    expect(refused.headers.get('idempotency-replayed')).toBeNull();
    expect((await send()).headers.get('idempotency-replayed')).toBe('true');
  });
});

describe('24. a 204 replays as 204, a Location survives', () => {
  it('without a body and without a Content-Type', async () => {
    const path = `/v1/notes/${randomUUID()}`;
    const [first, second] = await twice((headers) => service.as('operator').send('DELETE', path, { headers }));
    expect(first.status).toBe(204);
    expect(first.headers.get('content-type')).toBeNull();
    expectReplay(first, second);
    expect(await notes(service.database.superuserUrl)).toContain(`removed ${path.slice('/v1/notes/'.length)}`);
  });

  it('with the Location of what was made', async () => {
    const [first, second] = await twice((key) => service.as('operator').post<Note>('/v1/notes', { text: 'at' }, key));
    expect(first.headers.get('location')).toBe(`/v1/notes/${first.body.id}`);
    expectReplay(first, second);
  });
});

describe('the kind of an answer', () => {
  it.each<[string, unknown, string]>([
    ['text', 'plain text, not JSON', 'text/plain; charset=utf-8'],
    ['bytes', Buffer.from([0, 255, 10, 13]), 'application/octet-stream'],
    ['an array', [1, 'two', null], 'application/json; charset=utf-8'],
  ])('%s is what it would be without a key', async (_what, result, type) => {
    interfere(() => result);
    const [first, second] = await twice((key) => service.as('operator').post('/v1/notes', { text: 'kind' }, key));
    expect(first.headers.get('content-type')).toBe(type);
    expectReplay(first, second);
  });

  it('keeps a Content-Type that the handler chose', async () => {
    interfere((_tx, reply) => {
      reply.type('application/vnd.note+json').code(202);
    });
    const [first, second] = await twice((key) => service.as('operator').post('/v1/notes', { text: 'own' }, key));
    expect(first.status).toBe(202);
    expect(first.headers.get('content-type')).toBe('application/vnd.note+json');
    expectReplay(first, second);
  });
});

describe('a problem', () => {
  it('that is kept is replayed, byte for byte, even when the state has changed since', async () => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    const path = `/v1/orders/${placed.body.id}/transitions`;
    const key = { 'idempotency-key': randomUUID() };
    const first = await service.as('operator').post<ProblemAnswer>(path, { to: 'shipped' }, key);
    expect(first).toMatchObject({ status: 409, body: { code: 'illegal-transition' } });
    expect(first.headers.get('etag')).toBeNull();
    await service.as('operator').post(path, { to: 'confirmed' });
    expectReplay(first, await service.as('operator').post(path, { to: 'shipped' }, key));
    const [row] = await rows<{ status: string }>(
      service.database.superuserUrl,
      'SELECT status FROM waybill.idempotency_keys WHERE idempotency_key = $1',
      [key['idempotency-key']],
    );
    expect(row?.status).toBe('failed');
  });

  it('that is kept undoes what the handler wrote before', async () => {
    interfere((_tx, reply) => {
      reply.header('etag', '"9"');
      throw new DomainError(externalRefTaken, 'Taken.', { orderId: randomUUID() });
    });
    const [first, second] = await twice((key) => service.as('operator').post('/v1/notes', { text: 'undone' }, key));
    expect(first.status).toBe(409);
    expect(first.headers.get('location')).toBeNull();
    expectReplay(first, second);
    expect(await notes(service.database.superuserUrl)).not.toContain('undone');
  });

  it('that is not kept leaves the key as good as new', async () => {
    const key = { 'idempotency-key': randomUUID() };
    const wrong = await service.as('operator').post<ProblemAnswer>('/v1/orders', orderBody({ expectedTotal: 1 }), key);
    expect(wrong).toMatchObject({ status: 422, body: { code: 'total-mismatch' } });
    const invalid = await service.as('operator').post('/v1/orders', orderBody({ currency: 'xx' }), key);
    expect(invalid.status).toBe(422);
    const right = await service.as('operator').post('/v1/orders', orderBody(), key);
    expect(right.status).toBe(201);
    expect(right.headers.get('idempotency-replayed')).toBeNull();
  });

  it('of status 500 is not kept, and all that was written is undone', async () => {
    interfere(() => {
      throw new Error('a bug');
    });
    const key = { 'idempotency-key': randomUUID() };
    const broken = await service.as('operator').post('/v1/notes', { text: 'after a bug' }, key);
    expect(broken.status).toBe(500);
    interfere();
    const mended = await service.as('operator').post('/v1/notes', { text: 'after a bug' }, key);
    expect(mended.status).toBe(201);
    expect(mended.headers.get('idempotency-replayed')).toBeNull();
    const written = await notes(service.database.superuserUrl);
    expect(written.filter((text) => text === 'after a bug')).toHaveLength(1);
  });

  it('status that a handler returned rather than threw is not kept either', async () => {
    interfere((_tx, reply) => {
      reply.code(418);
      return { short: 'and stout' };
    });
    const [first, second] = await twice((key) => service.as('operator').post('/v1/notes', { text: 'teapot' }, key));
    expect([first.status, second.status]).toEqual([418, 418]);
    expect(second.headers.get('idempotency-replayed')).toBeNull();
    expect(await notes(service.database.superuserUrl)).not.toContain('teapot');
  });
});

describe('an erased answer', () => {
  it('is 410 from then on, for the resource that it showed and no other', async () => {
    const key = { 'idempotency-key': randomUUID() };
    const other = { 'idempotency-key': randomUUID() };
    const body = orderBody();
    const placed = await service.as('operator').post<Order>('/v1/orders', body, key);
    await service.as('operator').post('/v1/notes', { text: 'stays' }, other);
    const actor = await actorOf(service, 'admin');
    const erased = await inTransaction(service.database.appUrl, { tenant: 1, actor }, (client) =>
      client.query(`SELECT waybill.erase_answers(1, $1) AS count`, [[`order/${placed.body.id}`, 'order/none']]),
    );
    expect(erased.rows).toEqual([{ count: 1 }]);
    const again = await service.as('operator').post<ProblemAnswer>('/v1/orders', body, key);
    expect(again).toMatchObject({ status: 410, body: { code: 'answer-erased' } });
    expect(again.text).not.toContain('Ada');
    const changed = await service.as('operator').post<ProblemAnswer>('/v1/orders', orderBody(), key);
    expect(changed.body.code).toBe('idempotency-key-reused');
    const stays = await service.as('operator').post('/v1/notes', { text: 'stays' }, other);
    expect(stays.headers.get('idempotency-replayed')).toBe('true');
  });
});

describe('a handler with @Tx() but without @Idempotent()', () => {
  it('works as ever, whether a key is sent or not', async () => {
    const key = { 'idempotency-key': randomUUID() };
    const first = await service.as('operator').post<Note>('/v1/notes/plain', { text: 'plain' }, key);
    const second = await service.as('operator').post<Note>('/v1/notes/plain', { text: 'plain' }, key);
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(second.body.id).not.toBe(first.body.id);
  });

  it('and one with it, where the key is optional, works without a key', async () => {
    const patched = await service.as('operator').patch(`/v1/notes/${randomUUID()}`, { text: 'x' });
    expect(patched.status).toBe(200);
  });
});
