import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order, ProblemAnswer } from '../../support/builders.js';
import { move, place, placeIn, read, WAYS } from '../../support/orders.js';
import { contextOf, inTransaction, refusalOf, rows, type SqlContext } from '../../support/sql.js';

const STATES = Object.keys(WAYS);
const PAIRS = STATES.flatMap((from) => STATES.map((to) => ({ from, to })));

interface Rule {
  from_state: string;
  to_state: string;
}

describe('every pair of states', () => {
  let service: TestApp;
  let rules: Rule[];
  let operator: SqlContext;
  beforeAll(async () => {
    service = await startTestApp();
    const statement = `SELECT from_state, to_state FROM waybill.valid_transitions WHERE machine = 'order'`;
    rules = await rows<Rule>(service.database.appUrl, statement);
    operator = await contextOf(service, 'operator');
  });
  afterAll(() => service.close());

  const isLegal = (from: string, to: string) => rules.some((rule) => rule.from_state === from && rule.to_state === to);
  const waysFrom = (from: string) =>
    rules
      .filter((rule) => rule.from_state === from)
      .map((rule) => rule.to_state)
      .toSorted();

  it('is one of the states that the live table names', () => {
    expect([...new Set(rules.flatMap((rule) => [rule.from_state, rule.to_state]))].toSorted()).toEqual(
      STATES.toSorted(),
    );
    expect(PAIRS).toHaveLength(25);
  });

  it.each(PAIRS)('from $from to $to is answered by the live table, through HTTP', async ({ from, to }) => {
    const client = service.as('operator');
    const order = await placeIn(client, from);
    const answer = await move(client, order.id, to);
    if (isLegal(from, to)) {
      expect(answer.status).toBe(201);
      expect(answer.body).toMatchObject({ status: to, version: order.version + 1 });
      expect(answer.headers.get('etag')).toBe(`"${order.version + 1}"`);
      expect(await read(client, order.id)).toEqual(answer.body);
      return;
    }
    const problem = answer.body as unknown as ProblemAnswer;
    expect(answer.status).toBe(409);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    if (from === to) expect(problem).toMatchObject({ code: 'already-in-state', state: to });
    else expect(problem).toMatchObject({ code: 'illegal-transition', from, to, allowed: waysFrom(from) });
    expect(await read(client, order.id)).toEqual(order);
  });

  describe.each(['appUrl', 'ownerUrl'] as const)('in plain SQL with %s', (url) => {
    it.each(PAIRS)('from $from to $to is answered by the live table', async ({ from, to }) => {
      const order = await placeIn(service.as('operator'), from);
      const update = inTransaction(service.database[url], operator, (client) =>
        client.query(
          `UPDATE waybill.orders SET status = $2, transition_reason = 'because' WHERE tenant_id = 1 AND id = $1`,
          [order.id, to],
        ),
      );
      if (from === to || isLegal(from, to)) {
        await update;
        // Setting a state to itself changes nothing, and so makes no version.
        const version = from === to ? order.version : order.version + 1;
        expect(await read(service.as('viewer'), order.id)).toMatchObject({ status: to, version });
        return;
      }
      const { code, message, detail } = await refusalOf(update);
      expect(code).toBe('WB010');
      expect(message).toBe(`order ${order.id} cannot go from ${from} to ${to}`);
      expect(JSON.parse(detail ?? '')).toEqual({ from, to, allowed: waysFrom(from) });
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });
  });

  it('follows a rule that is added to the table while the service runs', async () => {
    const { superuserUrl } = service.database;
    const order = await placeIn(service.as('operator'), 'shipped');
    expect((await move(service.as('operator'), order.id, 'canceled')).status).toBe(409);
    await rows(
      superuserUrl,
      `INSERT INTO waybill.valid_transitions VALUES ('order', 'shipped', 'canceled', '{admin}')`,
    );
    try {
      expect((await move(service.as('operator'), order.id, 'canceled')).status).toBe(403);
      expect((await move(service.as('admin'), order.id, 'canceled')).status).toBe(201);
    } finally {
      await rows(
        superuserUrl,
        `DELETE FROM waybill.valid_transitions WHERE from_state = 'shipped' AND to_state = 'canceled'`,
      );
    }
  });
});

describe('a transition', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const attempt = (role: string, id: string, body: unknown, headers: Record<string, string> = {}) =>
    service.as(role).post<Order & ProblemAnswer>(`/v1/orders/${id}/transitions`, body, headers);

  it('is taken by every role that the rule lists', async () => {
    for (const role of ['operator', 'admin']) {
      const { id } = await place(service.as('operator'));
      expect((await attempt(role, id, { to: 'confirmed' })).status).toBe(201);
    }
  });

  it.each(['viewer', 'auditor'])('is refused to a %s with the roles that may', async (role) => {
    const order = await place(service.as('operator'));
    const { status, body } = await attempt(role, order.id, { to: 'confirmed' });
    expect(status).toBe(403);
    expect(body).toMatchObject({ code: 'role-required', roles: ['operator', 'admin'] });
    expect(await read(service.as(role), order.id)).toEqual(order);
  });

  it('needs a reason where the rule asks for one', async () => {
    const order = await place(service.as('operator'));
    const without = await attempt('operator', order.id, { to: 'canceled' });
    expect(without.status).toBe(422);
    expect(without.body).toMatchObject({ code: 'reason-required' });
    expect(await read(service.as('operator'), order.id)).toEqual(order);
    expect((await attempt('operator', order.id, { to: 'canceled', reason: 'sold out' })).status).toBe(201);
  });

  it.each([
    ['blank', '   '],
    ['empty', ''],
    ['a number', 7],
    ['of 501 characters', 'x'.repeat(501)],
  ])('refuses a reason that is %s', async (_what, reason) => {
    const { id } = await place(service.as('operator'));
    const { status, body } = await attempt('operator', id, { to: 'canceled', reason });
    expect(status).toBe(422);
    expect(body).toMatchObject({ code: 'validation-failed', errors: [{ pointer: '/reason' }] });
  });

  it('keeps a reason of 500 characters outside the BMP as it is', async () => {
    const { id } = await place(service.as('operator'));
    const reason = '🍵'.repeat(500);
    expect((await attempt('operator', id, { to: 'canceled', reason })).status).toBe(201);
    const history = await service.as('viewer').get<{ data: { reason: string | null }[] }>(`/v1/orders/${id}/history`);
    expect(history.body.data.map((change) => change.reason)).toEqual([null, reason]);
  });

  it('honours If-Match: 412 with the version in force when stale, 201 when fresh', async () => {
    const order = await placeIn(service.as('operator'), 'confirmed');
    const stale = await attempt('operator', order.id, { to: 'shipped' }, { 'if-match': '"1"' });
    expect(stale.status).toBe(412);
    expect(stale.body).toMatchObject({ code: 'stale-version', current: 2 });
    const fresh = await attempt('operator', order.id, { to: 'shipped' }, { 'if-match': '"2"' });
    expect(fresh.status).toBe(201);
  });

  it('takes If-Match: * for any version, and refuses what is no ETag', async () => {
    const { id } = await place(service.as('operator'));
    const bad = await attempt('operator', id, { to: 'confirmed' }, { 'if-match': '1' });
    expect(bad.status).toBe(400);
    expect(bad.body).toMatchObject({ code: 'invalid-parameter', errors: [{ parameter: 'If-Match' }] });
    expect((await attempt('operator', id, { to: 'confirmed' }, { 'if-match': '*' })).status).toBe(201);
  });

  it('never matches a weak ETag, as If-Match compares strongly', async () => {
    const { id } = await place(service.as('operator'));
    expect((await attempt('operator', id, { to: 'confirmed' }, { 'if-match': 'W/"1"' })).status).toBe(412);
  });

  it('merges metadata in the same version', async () => {
    const { id } = await place(service.as('operator'), { metadata: { keep: 1, drop: 2, deep: { a: 1 } } });
    const metadata = { drop: null, deep: { b: 2 }, new: ['x'] };
    const { status, body } = await attempt('operator', id, { to: 'confirmed', metadata });
    expect(status).toBe(201);
    expect(body).toMatchObject({ status: 'confirmed', version: 2 });
    expect(body.metadata).toEqual({ keep: 1, deep: { a: 1, b: 2 }, new: ['x'] });
    expect(await read(service.as('viewer'), id)).toEqual(body);
  });

  it('stores nothing of the metadata when it is illegal', async () => {
    const order = await place(service.as('operator'));
    expect((await attempt('operator', order.id, { to: 'delivered', metadata: { x: 1 } })).status).toBe(409);
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
  });

  it('refuses metadata that is too large once it is merged', async () => {
    const many = (prefix: string) => Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`${prefix}${i}`, i]));
    const order = await place(service.as('operator'), { metadata: many('a') });
    const { status, body } = await attempt('operator', order.id, { to: 'confirmed', metadata: many('b') });
    expect(status).toBe(422);
    expect(body).toMatchObject({ code: 'validation-failed', errors: [{ pointer: '/metadata' }] });
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
  });

  it('to a state that does not exist is illegal', async () => {
    const { id } = await place(service.as('operator'));
    const { status, body } = await attempt('operator', id, { to: 'teleported' });
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: 'illegal-transition', from: 'pending', allowed: ['canceled', 'confirmed'] });
  });

  it('of an order of another tenant is of none at all', async () => {
    const { id } = await place(service.asOther('operator'));
    const { status, body } = await attempt('operator', id, { to: 'confirmed' });
    expect(status).toBe(404);
    expect(body).toMatchObject({ code: 'not-found' });
    expect(await read(service.asOther('operator'), id)).toMatchObject({ status: 'pending' });
  });
});

describe('GET transitions', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const possible = async (role: string, id: string) =>
    (await service.as(role).get<Record<string, unknown>>(`/v1/orders/${id}/transitions`)).body;

  it.each(['operator', 'admin'])('tells a %s what is allowed now', async (role) => {
    const { id } = await place(service.as('operator'));
    const roles = ['operator', 'admin'];
    expect(await possible(role, id)).toEqual({
      state: 'pending',
      final: false,
      transitions: [
        { to: 'canceled', allowed: true, requiresReason: true, roles, blockedBy: [] },
        { to: 'confirmed', allowed: true, requiresReason: false, roles, blockedBy: [] },
      ],
    });
  });

  it.each(['viewer', 'auditor'])('tells a %s which roles it takes', async (role) => {
    const { id } = await place(service.as('operator'));
    const { transitions } = (await possible(role, id)) as { transitions: Record<string, unknown>[] };
    expect(transitions).toHaveLength(2);
    for (const transition of transitions) {
      expect(transition).toMatchObject({
        allowed: false,
        blockedBy: [{ code: 'role-required', detail: 'It takes one of the roles operator, admin.' }],
      });
    }
  });

  it.each(['delivered', 'canceled'])('says that %s is final', async (state) => {
    const { id } = await placeIn(service.as('operator'), state);
    expect(await possible('operator', id)).toEqual({ state, final: true, transitions: [] });
  });

  it('knows nothing of an order of another tenant', async () => {
    const { id } = await place(service.asOther('operator'));
    expect(await possible('operator', id)).toMatchObject({ code: 'not-found' });
  });
});
