import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { faultsOf, type Order, type ProblemAnswer } from '../../support/builders.js';
import { move, place, placeIn } from '../../support/orders.js';
import { actorOf } from '../../support/sql.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

/** The instant that many microseconds later, or earlier. */
function shift(timestamp: string, microseconds: number): string {
  const micros = BigInt(Date.parse(`${timestamp.slice(0, 19)}Z`)) * 1000n + BigInt(timestamp.slice(20, 26));
  const shifted = micros + BigInt(microseconds);
  const seconds = new Date(Number(shifted / 1_000_000n) * 1000).toISOString().slice(0, 19);
  return `${seconds}.${String(shifted % 1_000_000n).padStart(6, '0')}Z`;
}

describe('reading an order', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const get = <Body = Order & ProblemAnswer>(path: string, headers: Record<string, string> = {}) =>
    service.as('viewer').get<Body>(`/v1/orders/${path}`, headers);

  it('gives what was placed, to every role', async () => {
    const order = await place(service.as('operator'));
    expect(order).toMatchObject({
      channel: 'web',
      status: 'pending',
      version: 1,
      currency: 'EUR',
      subtotal: 2598,
      discount: 0,
      tax: 494,
      shipping: 490,
      total: 3582,
      customer: { ref: 'c-42', name: 'Ada Example', email: 'ada@example.test' },
      shippingAddress: { line1: '1 Main St', city: 'Berlin', postalCode: '10115', country: 'DE' },
      billingAddress: null,
      lines: [{ lineNo: 1, sku: 'TEA-1', quantity: 2, unitPrice: 1299, tax: 494, total: 3092, shippedQuantity: 0 }],
      metadata: { campaign: 'spring' },
    });
    expect(order.id).toMatch(UUID_V7);
    expect(order.number).toMatch(/^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$/);
    expect(order.placedAt).toMatch(TIMESTAMP);
    expect(order.updatedAt).toBe(order.placedAt);
    expect(Math.abs(Date.parse(order.placedAt) - Date.now())).toBeLessThan(60_000);
    for (const role of ['viewer', 'operator', 'admin', 'auditor']) {
      const answer = await service.as(role).get<Order>(`/v1/orders/${order.id}`);
      expect(answer.status).toBe(200);
      expect(answer.body).toEqual(order);
    }
  });

  it('takes an id in capitals', async () => {
    const order = await place(service.as('operator'));
    expect((await get(order.id.toUpperCase())).body).toEqual(order);
  });

  it.each(['01935c1e-7b3a-7c1d-9f00-000000000001', 'nonsense', '1', `${'0'.repeat(300)}`, '%00', '{id}'])(
    'finds nothing at %s',
    async (id) => {
      const { status, body } = await get(id);
      expect(status).toBe(404);
      expect(body).toMatchObject({ code: 'not-found' });
    },
  );

  it('finds nothing of another tenant, and says no more than for no order at all', async () => {
    const { id } = await place(service.asOther('operator'));
    for (const path of ['', '/transitions', '/history', '/versions', '/events']) {
      const { status, body } = await get(`${id}${path}`);
      const { body: none } = await get(`01935c1e-7b3a-7c1d-9f00-000000000001${path}`);
      expect(status).toBe(404);
      expect({ ...body, requestId: '', instance: '' }).toEqual({ ...none, requestId: '', instance: '' });
    }
  });

  it('without a key, or with one that is wrong, is 401', async () => {
    const { id } = await place(service.as('operator'));
    const key = service.tenants[0].keys.viewer ?? '';
    for (const authorization of [
      '',
      'Bearer',
      'Bearer x',
      `Bearer ${key}x`,
      `Basic ${key}`,
      `Bearer ${key.slice(0, -1)}_`,
    ]) {
      const { status, headers, body } = await get(id, { authorization });
      expect(status).toBe(401);
      expect(headers.get('www-authenticate')).toBe('Bearer');
      expect(body).toMatchObject({ code: 'unauthenticated' });
    }
  });

  describe('conditionally', () => {
    it.each(['"1"', 'W/"1"', '"7", "1"', '*'])('is 304 without a body when If-None-Match is %s', async (tag) => {
      const { id } = await place(service.as('operator'));
      const { status, text, headers } = await get(id, { 'if-none-match': tag });
      expect(status).toBe(304);
      expect(text).toBe('');
      expect(headers.get('etag')).toBe('"1"');
    });

    it.each(['"2"', '1', '"11"', ''])('is 200 when If-None-Match is %s', async (tag) => {
      const { id } = await place(service.as('operator'));
      const { status, headers } = await get(id, { 'if-none-match': tag });
      expect(status).toBe(200);
      expect(headers.get('etag')).toBe('"1"');
    });

    it('is 200 again once the order has changed', async () => {
      const { id } = await placeIn(service.as('operator'), 'confirmed');
      expect((await get(id, { 'if-none-match': '"1"' })).status).toBe(200);
      expect((await get(id, { 'if-none-match': '"2"' })).status).toBe(304);
    });

    it('answers HEAD like GET, without the body', async () => {
      const { id } = await place(service.as('operator'));
      const head = await service.as('viewer').send('HEAD', `/v1/orders/${id}`);
      expect([head.status, head.text, head.headers.get('etag')]).toEqual([200, '', '"1"']);
    });
  });

  describe('as it was', () => {
    it('in each version, by version and by time, to the microsecond', async () => {
      const client = service.as('operator');
      const versions = [await place(client)];
      const { id } = versions[0] as Order;
      const patch = (body: unknown) => client.patch<Order>(`/v1/orders/${id}`, body, { 'if-match': '*' });
      versions.push((await patch({ customer: { name: 'Bea Example', email: null }, metadata: { v: 2 } })).body);
      versions.push((await patch({ lines: [{ sku: 'A', name: 'A', quantity: 9, unitPrice: 9 }] })).body);
      versions.push((await move(client, id, 'confirmed')).body);
      versions.push((await patch({ shippingAddress: null })).body);
      versions.push((await move(client, id, 'canceled')).body);

      for (const [index, order] of versions.entries()) {
        expect(order.version).toBe(index + 1);
        const byVersion = await get(`${id}?version=${order.version}`);
        expect(byVersion.body).toEqual(order);
        expect(byVersion.headers.get('etag')).toBe(`"${order.version}"`);
        expect((await get(`${id}?asOf=${order.updatedAt}`)).body).toEqual(order);
        const before = await get(`${id}?asOf=${shift(order.updatedAt, -1)}`);
        if (index === 0) expect(before.status).toBe(404);
        else expect(before.body).toEqual(versions[index - 1]);
        const after = shift(order.updatedAt, 1);
        const next = versions[index + 1];
        if (next === undefined || after < next.updatedAt)
          expect((await get(`${id}?asOf=${after}`)).body).toEqual(order);
      }
    });

    it('takes seven and nine decimals exactly', async () => {
      const order = await placeIn(service.as('operator'), 'confirmed');
      const between = (time: string, decimals: string) => get(`${order.id}?asOf=${time.slice(0, -1)}${decimals}Z`);
      for (const decimals of ['0', '1', '9', '001', '999']) {
        expect((await between(order.updatedAt, decimals)).body).toEqual(order);
        expect((await between(shift(order.updatedAt, -1), decimals)).body).not.toEqual(order);
      }
    });

    it('takes a time in any offset, and in the future', async () => {
      const order = await placeIn(service.as('operator'), 'confirmed');
      const inTokyo = `${shift(order.updatedAt, 9 * 3_600_000_000).slice(0, -1)}%2B09:00`;
      expect((await get(`${order.id}?asOf=${inTokyo}`)).body).toEqual(order);
      expect((await get(`${order.id}?asOf=9999-12-31T23:59:59Z`)).body).toEqual(order);
    });

    it.each(['version=4', 'version=2147483647', 'asOf=1999-01-01T00:00:00Z'])('is 404 for %s', async (query) => {
      const { id } = await placeIn(service.as('operator'), 'shipped');
      const { status, body } = await get(`${id}?${query}`);
      expect(status).toBe(404);
      expect(body).toMatchObject({ code: 'not-found' });
    });

    it.each([
      ['version', 'version=0'],
      ['version', 'version=-1'],
      ['version', 'version=1.5'],
      ['version', 'version=x'],
      ['version', 'version='],
      ['version', 'version=2147483648'],
      ['version', 'version=1&version=1'],
      ['asOf', 'asOf=yesterday'],
      ['asOf', 'asOf=2026-02-30T00:00:00Z'],
      ['asOf', 'asOf=2026-01-01T00:00:00'],
      ['asOf', 'asOf=2026-01-01T00:00:00.1234567890Z'],
      ['asOf', 'asOf=2026-01-01T00:00:00Z&version=1'],
    ])('refuses %s in ?%s', async (parameter, query) => {
      const { id } = await place(service.as('operator'));
      const { status, body } = await get(`${id}?${query}`);
      expect(status).toBe(400);
      expect(body.code).toBe('invalid-parameter');
      expect(faultsOf(body)).toEqual([parameter]);
    });
  });

  describe('history, versions and events', () => {
    interface Change {
      seq: number;
      from: string | null;
      to: string;
      changedBy: string;
      changedAt: string;
      reason: string | null;
      requestId: string | null;
    }
    interface Version {
      version: number;
      type: string;
      at: string;
      by: string;
      reason: string | null;
      requestId: string | null;
      changes: Record<string, { old: unknown; new: unknown }>;
      eventHash: string;
    }
    interface List<T> {
      data: T[];
      next: string | null;
    }

    it('tell who, from where to where, when and why', async () => {
      const operator = service.as('operator');
      const { id, placedAt } = (
        await operator.post<Order>('/v1/orders', { ...bodyOf(), externalRef: null }, { 'x-request-id': 'req-1' })
      ).body;
      await operator.post(`/v1/orders/${id}/transitions`, { to: 'confirmed' }, { 'x-request-id': 'req-2' });
      const last = await service
        .as('admin')
        .post<Order>(`/v1/orders/${id}/transitions`, { to: 'canceled', reason: 'müde' }, { 'x-request-id': 'req-3' });
      const { data } = (await get<{ data: Change[] }>(`${id}/history`)).body;
      const [by, admin] = [await actorOf(service, 'operator'), await actorOf(service, 'admin')];
      expect(data).toEqual([
        { seq: 1, from: null, to: 'pending', changedBy: by, changedAt: placedAt, reason: null, requestId: 'req-1' },
        {
          seq: 2,
          from: 'pending',
          to: 'confirmed',
          changedBy: by,
          changedAt: data[1]?.changedAt,
          reason: null,
          requestId: 'req-2',
        },
        {
          seq: 3,
          from: 'confirmed',
          to: 'canceled',
          changedBy: admin,
          changedAt: last.body.updatedAt,
          reason: 'müde',
          requestId: 'req-3',
        },
      ]);
      const times = data.map(({ changedAt }) => changedAt);
      expect(times).toEqual(times.toSorted());
      expect(times.every((time) => TIMESTAMP.test(time))).toBe(true);

      const versions = (await get<List<Version>>(`${id}/versions`)).body.data;
      expect(
        versions.map(({ version, type, by, reason, requestId }) => [version, type, by, reason, requestId]),
      ).toEqual([
        [1, 'order.created', by, null, 'req-1'],
        [2, 'order.confirmed', by, null, 'req-2'],
        [3, 'order.canceled', admin, 'müde', 'req-3'],
      ]);
      expect(versions.map(({ changes }) => changes)).toEqual([
        {},
        { status: { old: 'pending', new: 'confirmed' } },
        { status: { old: 'confirmed', new: 'canceled' } },
      ]);
      expect(versions.map(({ at }) => at)).toEqual(times);
      expect(versions[2]?.eventHash).toBe(last.body.eventHash);
    });

    it('has no row in the history for a change that is none of state', async () => {
      const { id } = await place(service.as('operator'));
      await service.as('operator').patch(`/v1/orders/${id}`, { metadata: { x: 1 } }, { 'if-match': '*' });
      expect((await get<{ data: Change[] }>(`${id}/history`)).body.data).toHaveLength(1);
      const versions = (await get<List<Version>>(`${id}/versions`)).body.data;
      expect(versions[1]).toMatchObject({
        type: 'order.updated',
        changes: { metadata: { old: { campaign: 'spring' }, new: { campaign: 'spring', x: 1 } } },
      });
      expect(Object.keys(versions[1]?.changes ?? {})).toEqual(['metadata']);
    });

    it('hold no personal data', async () => {
      const { id } = await place(service.as('operator'));
      await service.as('operator').patch(`/v1/orders/${id}`, { customer: { name: 'Bea Secret' } }, { 'if-match': '*' });
      for (const path of ['history', 'versions', 'events']) {
        const { text } = await get(`${id}/${path}`);
        expect(text).not.toMatch(/Ada Example|ada@example|Bea Secret|1 Main St/);
      }
      const versions = (await get<List<Version>>(`${id}/versions`)).body.data;
      expect(Object.keys(versions[1]?.changes ?? {})).toEqual(['contacts']);
    });

    it.each(['versions', 'events'])('come in pages: %s', async (list) => {
      const { id } = await placeIn(service.as('operator'), 'delivered');
      const seen: number[] = [];
      let path = `/v1/orders/${id}/${list}?limit=3`;
      let pages = 0;
      for (; path; pages += 1) {
        const { status, body, headers } = await service.as('viewer').get<List<{ version: number }>>(path);
        expect(status).toBe(200);
        seen.push(...body.data.map(({ version }) => version));
        const link = /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1] ?? '';
        expect(link === '').toBe(body.next === null);
        path = link;
      }
      expect([seen, pages]).toEqual([[1, 2, 3, 4], 2]);
    });

    it.each([
      ['limit', 'limit=0'],
      ['limit', 'limit=201'],
      ['cursor', 'cursor=x'],
      ['cursor', 'cursor='],
    ])('refuse %s in ?%s', async (parameter, query) => {
      const { id } = await place(service.as('operator'));
      for (const list of ['versions', 'events']) {
        const { status, body } = await get(`${id}/${list}?${query}`);
        expect(status).toBe(400);
        expect(faultsOf(body)).toEqual([parameter]);
      }
    });

    it('refuse a cursor of another order', async () => {
      const [one, two] = [await placeIn(service.as('operator'), 'shipped'), await place(service.as('operator'))];
      const { next } = (await get<List<Version>>(`${one.id}/versions?limit=1`)).body;
      const { status, body } = await get(`${two.id}/versions?cursor=${next}`);
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: 'invalid-cursor' });
    });

    it.each(['/history', '/transitions', '/versions', '/events', ''])(
      'refuse an unknown parameter: %s',
      async (path) => {
        const { id } = await place(service.as('operator'));
        const { status, body } = await get(`${id}${path}?verbose=1`);
        expect(status).toBe(400);
        expect(body).toMatchObject({ code: 'unknown-parameter', errors: [{ parameter: 'verbose' }] });
      },
    );

    it('never show a Link header without a link', async () => {
      const { id } = await place(service.as('operator'));
      expect((await get(`${id}/versions`)).headers.has('link')).toBe(false);
    });
  });
});

function bodyOf(): Record<string, unknown> {
  return {
    channel: 'web',
    currency: 'EUR',
    customer: { ref: 'c-42' },
    lines: [{ sku: 'TEA-1', name: 'Green tea', quantity: 1, unitPrice: 1299 }],
  };
}
