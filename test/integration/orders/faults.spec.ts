import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { move, place, placeIn, read } from '../../support/orders.js';
import { rows, withClient } from '../../support/sql.js';

// Numbered like the list of faults that others shipped. 2 is in guards-and-hooks.spec.ts, 14 in list-plans.sql.spec.ts,
// 15 in time-zones.spec.ts, 16 in removed-states.spec.ts.

interface History {
  data: { seq: number; from: string | null; to: string }[];
}
interface Events {
  data: { version: number; type: string; prevHash: string; eventHash: string; body: string }[];
}

/** Runs `work` on all items, so many at a time. */
async function inParallel<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: width }, worker));
}

describe('faults that others shipped', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const operator = () => service.as('operator');
  const history = async (id: string) => (await operator().get<History>(`/v1/orders/${id}/history`)).body.data;
  const events = async (id: string) => (await operator().get<Events>(`/v1/orders/${id}/events?limit=200`)).body.data;

  async function expectWholeChain(id: string, versions: number): Promise<void> {
    const chain = await events(id);
    expect(chain.map(({ version }) => version)).toEqual(Array.from({ length: versions }, (_, i) => i + 1));
    for (const [index, event] of chain.entries()) {
      if (index > 0) expect(event.prevHash).toBe(chain[index - 1]?.eventHash);
    }
  }

  it('fault 1: parallel changes of address, metadata and state on one order: every 2xx survives', async () => {
    for (let round = 0; round < 8; round += 1) {
      const { id } = await place(operator());
      const path = `/v1/orders/${id}`;
      const any = { 'if-match': '*' };
      const answers = await Promise.all([
        operator().patch<Order>(path, { shippingAddress: { city: 'Ulm' } }, any),
        operator().patch<Order>(path, { billingAddress: { line1: '1', city: 'Hof', country: 'DE' } }, any),
        ...Array.from({ length: 6 }, (_, i) => operator().patch<Order>(path, { metadata: { [`m${i}`]: i } }, any)),
        operator().patch<Order>(path, { customer: { phone: '110' } }, any),
        move(operator(), id, 'confirmed', { metadata: { moved: true } }),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 9 }, () => 200), 201]);
      const order = await read(operator(), id);
      expect(order).toMatchObject({
        status: 'confirmed',
        version: 11,
        shippingAddress: { city: 'Ulm', line1: '1 Main St' },
        billingAddress: { city: 'Hof' },
        customer: { phone: '110', name: 'Ada Example' },
        metadata: { campaign: 'spring', m0: 0, m1: 1, m2: 2, m3: 3, m4: 4, m5: 5, moved: true },
      });
      expect(answers.map(({ body }) => body.version).toSorted((a, b) => a - b)).toEqual([
        2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
      ]);
      await expectWholeChain(id, 11);
    }
  });

  it('fault 1: of parallel changes with one ETag exactly one is made', async () => {
    const { id } = await place(operator());
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        operator().patch<Order & ProblemAnswer>(`/v1/orders/${id}`, { metadata: { i } }, { 'if-match': '"1"' }),
      ),
    );
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    for (const { status, body } of answers) if (status !== 200) expect([status, body.current]).toEqual([412, 2]);
    expect(await read(operator(), id)).toEqual(won[0]?.body);
  });

  it('fault 3: fifty parallel confirms: one history row, the others are already-in-state', async () => {
    const { id } = await place(operator());
    const answers = await Promise.all(Array.from({ length: 50 }, () => move(operator(), id, 'confirmed')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    const rest = answers.filter(({ status }) => status !== 201).map(({ body }) => body as unknown as ProblemAnswer);
    expect(rest.map(({ code, state }) => `${code} ${String(state)}`)).toEqual(
      Array.from({ length: 49 }, () => 'already-in-state confirmed'),
    );
    expect((await history(id)).map(({ to }) => to)).toEqual(['pending', 'confirmed']);
    await expectWholeChain(id, 2);
  });

  it('fault 4: cancel against ship, 500 times: one winner, history and events agree', async () => {
    const outcomes = new Map<string, number>();
    await inParallel([...Array(500).keys()], 4, async (round) => {
      const { id } = await placeIn(operator(), 'confirmed');
      const ship = () => move(operator(), id, 'shipped');
      const cancel = () => move(operator(), id, 'canceled');
      // Who is sent first changes, or one of them would mostly win.
      const race = round % 2 === 0 ? [ship(), cancel()] : [cancel(), ship()];
      const answers = await Promise.all(race);
      const statuses = answers.map(({ status }) => status).toSorted();
      expect(statuses).toEqual([201, 409]);
      const winner = answers.find(({ status }) => status === 201)?.body.status ?? '';
      const loser = answers.find(({ status }) => status === 409)?.body as unknown as ProblemAnswer;
      expect(loser).toMatchObject({ code: 'illegal-transition', from: winner });
      outcomes.set(winner, (outcomes.get(winner) ?? 0) + 1);
    });
    expect((outcomes.get('shipped') ?? 0) + (outcomes.get('canceled') ?? 0)).toBe(500);
    expect(outcomes.size).toBe(2);
    const disagreements = await rows(
      service.database.superuserUrl,
      `SELECT o.id FROM waybill.orders o
       JOIN LATERAL (SELECT string_agg(h.to_status, ' ' ORDER BY h.seq) AS path FROM waybill.order_status_history h
                     WHERE h.tenant_id = o.tenant_id AND h.order_id = o.id) h ON true
       JOIN LATERAL (SELECT string_agg(e.type, ' ' ORDER BY e.version) AS path, max(e.version) AS last FROM audit.events e
                     WHERE e.tenant_id = o.tenant_id AND e.stream = 'order/' || o.id) e ON true
       WHERE o.status IN ('shipped', 'canceled') AND o.version = 3
         AND (h.path <> 'pending confirmed ' || o.status
              OR e.path <> 'order.created order.confirmed order.' || o.status OR e.last <> o.version)`,
    );
    expect(disagreements).toEqual([]);
  });

  it('fault 5: whoever is told of a change and reads at once sees it', async () => {
    await inParallel(Array.from({ length: 60 }), 6, async () => {
      const { id, version } = await place(operator());
      expect((await read(service.as('viewer'), id)).version).toBe(version);
      const moved = await move(operator(), id, 'confirmed');
      const [order, list] = await Promise.all([
        read(service.as('viewer'), id),
        service.as('viewer').get<{ data: Order[] }>(`/v1/orders?status=confirmed&limit=200`),
      ]);
      expect(order).toEqual(moved.body);
      expect(list.body.data.map((listed) => listed.id)).toContain(id);
    });
  });

  it('fault 5: a list shows one moment: no order in it is in another state than was asked for', async () => {
    const channel = 'moment';
    const placed = await Promise.all(Array.from({ length: 60 }, () => place(operator(), { channel })));
    const moved = new AbortController();
    const moves = inParallel(placed, 4, async ({ id }) => {
      await move(operator(), id, 'confirmed');
    }).finally(() => moved.abort());
    const seen: string[] = [];
    const look = async (): Promise<void> => {
      while (!moved.signal.aborted) {
        const path = `/v1/orders?channel=${channel}&status=pending&limit=200&count=exact`;
        const { body } = await service.as('viewer').get<{ data: Order[]; count: number }>(path);
        seen.push(...body.data.map(({ status }) => status));
        expect(body.count).toBe(body.data.length);
      }
    };
    await Promise.all([moves, look(), look(), look()]);
    expect(seen.length).toBeGreaterThan(0);
    expect([...new Set(seen)]).toEqual(['pending']);
  });

  it('fault 9: 24.99 with 10.75 % tax and 6.44 shipping is 3412', async () => {
    const order = await place(operator(), {
      lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 2499, taxRatePpm: 107_500 }],
      shipping: 644,
      expectedTotal: 3412,
    });
    expect(order).toMatchObject({ subtotal: 2499, tax: 269, total: 3412 });
  });

  it('fault 10: 200 concurrent creates have distinct numbers', async () => {
    const placed = await Promise.all(Array.from({ length: 200 }, () => place(operator())));
    expect(new Set(placed.map(({ number }) => number)).size).toBe(200);
    expect(new Set(placed.map(({ id }) => id)).size).toBe(200);
  });

  it('fault 10: concurrent creates with one external reference make one order, and name it to the others', async () => {
    const body = orderBody({ externalRef: 'one-only' });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => operator().post<Order & ProblemAnswer>('/v1/orders', body)),
    );
    const [won, ...more] = answers.filter(({ status }) => status === 201);
    expect(more).toEqual([]);
    for (const { status, body: problem } of answers) {
      if (status !== 201)
        expect([status, problem.code, problem.orderId]).toEqual([409, 'external-ref-taken', won?.body.id]);
    }
  });

  it('fault 11: a row that somebody else has locked for too long is a 503 that says when to come again', async () => {
    const order = await placeIn(operator(), 'confirmed');
    await withClient(service.database.superuserUrl, async (client) => {
      await client.query('BEGIN');
      await client.query('SELECT 1 FROM waybill.orders WHERE id = $1 FOR UPDATE', [order.id]);
      const [moved, seen] = await Promise.all([move(operator(), order.id, 'shipped'), read(operator(), order.id)]);
      expect([moved.status, (moved.body as unknown as ProblemAnswer).code]).toEqual([503, 'unavailable']);
      expect(Number(moved.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(seen).toEqual(order);
      await client.query('ROLLBACK');
    });
    expect((await move(operator(), order.id, 'shipped')).status).toBe(201);
  });

  it('fault 12: totals are JSON numbers, and 9 and 1 are 10', async () => {
    const line = (unitPrice: number) => ({ sku: 'A', name: 'A', quantity: 1, unitPrice });
    const { id } = await place(operator(), { lines: [line(9), line(1)], shipping: 0, expectedTotal: 10 });
    const { text } = await operator().get(`/v1/orders/${id}`);
    expect(text).toContain('"total":10,');
    for (const path of [`/v1/orders/${id}?version=1`, '/v1/orders?limit=200']) {
      expect((await operator().get(path)).text).not.toMatch(
        /"(?:subtotal|discount|tax|shipping|total|quantity|unitPrice|version|lineNo)":"/,
      );
    }
  });

  it('fault 13: a stale page: cancel, then ship with the old ETag is 412, with the fresh one 409', async () => {
    const order = await placeIn(operator(), 'confirmed');
    const ship = (tag: string | null) =>
      operator().post<ProblemAnswer>(
        `/v1/orders/${order.id}/transitions`,
        { to: 'shipped' },
        { 'if-match': tag ?? '' },
      );
    const canceled = await move(operator(), order.id, 'canceled');
    const stale = await ship(`"${order.version}"`);
    expect([stale.status, stale.body.code, stale.body.current]).toEqual([412, 'stale-version', 3]);
    const fresh = await ship(canceled.headers.get('etag'));
    expect([fresh.status, fresh.body.code]).toEqual([409, 'illegal-transition']);
  });
});

describe('with a pool of 2 connections', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp({ env: { DATABASE_POOL_SIZE: '2' } });
  });
  afterAll(() => service.close());

  it('fault 7: 20 concurrent creates all finish', async () => {
    const placed = await Promise.all(Array.from({ length: 20 }, () => place(service.as('operator'))));
    expect(new Set(placed.map(({ id }) => id)).size).toBe(20);
  });

  it('fault 7: all kinds of requests at once finish as well', async () => {
    const { id } = await place(service.as('operator'));
    const path = `/v1/orders/${id}`;
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => {
        if (i % 4 === 0) return service.as('operator').patch(path, { metadata: { i } }, { 'if-match': '*' });
        if (i % 4 === 1) return service.as('viewer').get('/v1/orders?count=exact');
        if (i % 4 === 2) return service.as('viewer').get(`${path}/versions`);
        return move(service.as('operator'), id, 'confirmed', { metadata: { m: i } });
      }),
    );
    expect(answers.filter(({ status }) => ![200, 201, 409].includes(status))).toEqual([]);
  });
});
