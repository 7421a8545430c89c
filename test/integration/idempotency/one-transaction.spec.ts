import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { KeySweeper } from '../../../src/idempotency/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { createNotesTable, interfere, notes, NotesModule } from '../../support/notes.js';
import { rows } from '../../support/sql.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp({ extensions: [NotesModule] });
  await createNotesTable(service.database.superuserUrl);
});
afterAll(() => service.close());
afterEach(() => interfere());

const newKey = () => ({ 'idempotency-key': randomUUID() });

const XMINS = `
  SELECT 'key' AS what, xmin::text FROM waybill.idempotency_keys WHERE idempotency_key = $1
  UNION ALL SELECT 'order', xmin::text FROM waybill.orders WHERE id = $2
  UNION ALL SELECT 'history', xmin::text FROM waybill.order_status_history WHERE order_id = $2 AND seq = $3
  UNION ALL SELECT 'event', xmin::text FROM audit.events WHERE stream = 'order/' || $2::text AND version = $3`;

describe('key, order, history and event', () => {
  it('are written by one and the same transaction, without a subtransaction', async () => {
    const xmins = async (key: string, id: string, seq: number) => {
      const found = await rows<{ what: string; xmin: string }>(service.database.superuserUrl, XMINS, [key, id, seq]);
      expect(found.map(({ what }) => what)).toEqual(['key', 'order', 'history', 'event']);
      return new Set(found.map(({ xmin }) => xmin));
    };
    const [placing, moving] = [randomUUID(), randomUUID()];
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody(), { 'idempotency-key': placing });
    expect((await xmins(placing, placed.body.id, 1)).size).toBe(1);
    await service
      .as('operator')
      .post(`/v1/orders/${placed.body.id}/transitions`, { to: 'confirmed' }, { 'idempotency-key': moving });
    expect((await xmins(moving, placed.body.id, 2)).size).toBe(1);
  });
});

describe('a COMMIT that became a ROLLBACK', () => {
  it('because a handler swallowed an error of the database is a 500, and nothing is kept', async () => {
    interfere(async (tx) => {
      await tx.adHocRows('SELECT 1 / 0', []).catch(() => undefined);
    });
    const key = newKey();
    const answer = await service.as('operator').post<ProblemAnswer>('/v1/notes', { text: 'swallowed' }, key);
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal-error' } });
    expect(answer.headers.get('location')).toBeNull();
    interfere();
    expect((await service.as('operator').post('/v1/notes', { text: 'swallowed' }, key)).status).toBe(201);
    const written = await notes(service.database.superuserUrl);
    expect(written.filter((text) => text === 'swallowed')).toHaveLength(1);
  });

  it('is noticed without a key, too, where COMMIT is all that is left to fail', async () => {
    interfere(async (tx) => {
      await tx.adHocRows('SELECT 1 / 0', []).catch(() => undefined);
    });
    const answer = await service.as('operator').post<ProblemAnswer>('/v1/notes/plain', { text: 'unnoticed' });
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal-error' } });
    expect(await notes(service.database.superuserUrl)).not.toContain('unnoticed');
  });

  it('because the key was gone when the answer was to be stored takes the effect along', async () => {
    const key = newKey();
    // Only a superuser without triggers can take a key away from under its transaction; the fence must hold all the same.
    interfere(async (tx) => {
      await tx.adHocRows('ROLLBACK', []);
      await tx.adHocRows('BEGIN', []);
      await tx.adHocRows('SELECT waybill.set_context($1, $2, $3, $4)', [1, tx.context.userId, ['operator'], 'x']);
      await tx.adHocRows(`INSERT INTO waybill.notes VALUES (1, gen_random_uuid(), 'unclaimed')`, []);
    });
    const answer = await service.as('operator').post('/v1/notes', { text: 'unclaimed' }, key);
    expect(answer.status).toBe(500);
    expect(await notes(service.database.superuserUrl)).not.toContain('unclaimed');
  });
});

describe('with a pool of one connection', () => {
  let narrow: TestApp;
  beforeAll(async () => {
    narrow = await startTestApp({ extensions: [NotesModule], env: { DATABASE_POOL_SIZE: '1' } });
    await createNotesTable(narrow.database.superuserUrl);
  });
  afterAll(() => narrow.close());

  it('first answers, replays, kept problems, inner retries and sweeps all pass, in parallel too', async () => {
    let failures = 2;
    interfere(() => {
      failures -= 1;
      if (failures >= 0) throw Object.assign(new Error('serialization failure'), { code: '40001' });
    });
    const retried = await narrow.as('operator').post('/v1/notes', { text: 'retried' }, newKey());
    expect(retried.status).toBe(201);
    interfere();

    const placed = await narrow.as('operator').post<Order>('/v1/orders', orderBody());
    const path = `/v1/orders/${placed.body.id}/transitions`;
    const key = newKey();
    const problems = [
      await narrow.as('operator').post<ProblemAnswer>(path, { to: 'shipped' }, key),
      await narrow.as('operator').post<ProblemAnswer>(path, { to: 'shipped' }, key),
    ];
    expect(problems.map(({ body }) => body.code)).toEqual(['illegal-transition', 'illegal-transition']);

    const keys = Array.from({ length: 10 }, newKey);
    const send = () =>
      Promise.all([
        ...keys.map((key, index) => narrow.as('operator').post('/v1/notes', { text: `n${index}` }, key)),
        narrow.app.get(KeySweeper, { strict: false }).sweep(),
      ]);
    const [first, second] = [await send(), await send()];
    for (const [index] of keys.entries()) {
      expect(first[index]).toMatchObject({ status: 201 });
      expect(second[index]).toMatchObject({ status: 201, text: (first[index] as { text: string }).text });
    }
  });
});
