import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { alreadyInState } from '../../../src/workflow/index.js';
import { DomainError } from '../../../src/problems/index.js';
import { CollisionError } from '../../../src/database/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { createNotesTable, interfere, type Note, notes, NotesModule } from '../../support/notes.js';
import { countRows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp({ extensions: [NotesModule] });
  await createNotesTable(service.database.superuserUrl);
});
afterAll(() => service.close());
afterEach(() => interfere());

const newKey = () => ({ 'idempotency-key': randomUUID() });

/** A handler that stops after its write until it is let go. */
function stopInHandler(): { stopped: Promise<void>; letGo: () => void } {
  const gate = withResolvers();
  const arrival = withResolvers();
  interfere(async () => {
    arrival.resolve();
    await gate.promise;
  });
  return { stopped: arrival.promise, letGo: gate.resolve };
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

describe('17. 50 parallel identical POSTs', () => {
  it('make one order; the rest are 409 in flight or replays', async () => {
    const before = await countRows(service.database.superuserUrl);
    const key = newKey();
    const body = orderBody({ externalRef: undefined });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => service.as('operator').post<Order & ProblemAnswer>('/v1/orders', body, key)),
    );
    const made = answers.filter(({ status }) => status === 201);
    const firsts = made.filter(({ headers }) => headers.get('idempotency-replayed') === null);
    expect(firsts).toHaveLength(1);
    expect(new Set(made.map(({ text }) => text)).size).toBe(1);
    for (const { status, body, headers } of answers.filter((answer) => answer.status !== 201)) {
      expect([status, body.code]).toEqual([409, 'idempotency-key-in-flight']);
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    }
    const after = await countRows(service.database.superuserUrl);
    for (const table of ['orders', 'order_status_history', 'events']) {
      expect((after[table] ?? 0) - (before[table] ?? 0)).toBe(1);
    }
  });

  it('that come after the first has finished are all replays: they do not stand in each other’s way', async () => {
    const key = newKey();
    const first = await service.as('operator').post('/v1/notes', { text: 'calm' }, key);
    const again = await Promise.all(
      Array.from({ length: 50 }, () => service.as('operator').post('/v1/notes', { text: 'calm' }, key)),
    );
    expect(again.map(({ status }) => status)).toEqual(again.map(() => 201));
    expect(new Set(again.map(({ text }) => text))).toEqual(new Set([first.text]));
  });
});

describe('while a request is running', () => {
  it('its key is in flight, whatever the body, and afterwards it replays', async () => {
    const { stopped, letGo } = stopInHandler();
    const key = newKey();
    const running = service.as('operator').post<Note>('/v1/notes', { text: 'slow' }, key);
    await stopped;
    for (const text of ['slow', 'another']) {
      const answer = await service.as('operator').post<ProblemAnswer>('/v1/notes', { text }, key);
      expect(answer).toMatchObject({ status: 409, body: { code: 'idempotency-key-in-flight' } });
      expect(answer.headers.get('retry-after')).toBe('1');
    }
    const theirs = await service.asOther('viewer').post('/v1/notes', { text: 'slow' }, key);
    expect(theirs.status).toBe(403);
    letGo();
    const first = await running;
    interfere();
    const replay = await service.as('operator').post('/v1/notes', { text: 'slow' }, key);
    expect(replay.text).toBe(first.text);
    const reused = await service.as('operator').post<ProblemAnswer>('/v1/notes', { text: 'another' }, key);
    expect(reused.body.code).toBe('idempotency-key-reused');
  });

  it('and its client goes away, the work commits all the same, and the retry replays', async () => {
    const { stopped, letGo } = stopInHandler();
    const key = randomUUID();
    const body = JSON.stringify({ text: 'unheard' });
    const { port } = new URL(service.baseUrl);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(
      `POST /v1/notes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${service.as('operator').apiKey}\r\n` +
        `Content-Type: application/json\r\nIdempotency-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await stopped;
    socket.resetAndDestroy();
    await sleep(100);
    letGo();
    await eventually(async () => {
      const retry = await service
        .as('operator')
        .post<Note>('/v1/notes', { text: 'unheard' }, { 'idempotency-key': key });
      expect(retry.status).toBe(201);
      expect(retry.headers.get('idempotency-replayed')).toBe('true');
    });
    const written = await notes(service.database.superuserUrl);
    expect(written.filter((text) => text === 'unheard')).toHaveLength(1);
  });
});

describe('what is retried inside, before anything left', () => {
  it.each<[string, () => unknown]>([
    ['a serialization failure', () => sqlError('40001')],
    ['a deadlock', () => sqlError('40P01')],
    ['a collision of random numbers', () => new CollisionError('taken')],
  ])('%s: the whole transaction runs again, claim included, and the client sees one answer', async (what, make) => {
    let attempts = 0;
    interfere((_tx, reply) => {
      attempts += 1;
      if (attempts > 2) return;
      reply.header('etag', '"of an attempt that failed"');
      throw make();
    });
    const key = newKey();
    const first = await service.as('operator').post('/v1/notes', { text: what }, key);
    expect(attempts).toBe(3);
    expect(first.status).toBe(201);
    expect(first.headers.get('etag')).toBeNull();
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    expect((await service.as('operator').post('/v1/notes', { text: what }, key)).text).toBe(first.text);
    const written = await notes(service.database.superuserUrl);
    expect(written.filter((text) => text === what)).toHaveLength(1);
  });

  it('and when it never ends, it is 503, and the key is as good as new', async () => {
    interfere(() => {
      throw sqlError('40001');
    });
    const key = newKey();
    const refused = await service.as('operator').post('/v1/notes', { text: 'contended' }, key);
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).not.toBeNull();
    interfere();
    expect((await service.as('operator').post('/v1/notes', { text: 'contended' }, key)).status).toBe(201);
  });
});

describe('a kept problem whose key another attempt took meanwhile', () => {
  it('is answered by what that attempt found', async () => {
    const key = newKey();
    let calls = 0;
    const [gate, hasOvertaken] = [withResolvers(), withResolvers()];
    const body = { text: 'overtaken' };
    interfere(async (tx) => {
      calls += 1;
      if (calls > 1) return;
      // The transaction ends here, as a rollback would, and another request gets in before the problem is stored.
      await tx.adHocRows('ROLLBACK', []);
      gate.resolve();
      await hasOvertaken.promise;
      throw new DomainError(alreadyInState, 'Too late.', { state: 'x' });
    });
    const first = service.as('operator').post('/v1/notes', body, key);
    await gate.promise;
    const second = await service.as('operator').post('/v1/notes', body, key);
    hasOvertaken.resolve();
    expect(second.status).toBe(201);
    const overtaken = await first;
    expect(overtaken.status).toBe(201);
    expect(overtaken.text).toBe(second.text);
    expect(overtaken.headers.get('idempotency-replayed')).toBe('true');
  });
});

function sqlError(code: string): Error {
  return Object.assign(new Error(`SQLSTATE ${code}`), { code });
}

async function eventually(check: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await check();
    } catch (error) {
      if (attempt === 1_200) throw error;
      await sleep(100);
    }
  }
}
