import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { faultsOf, type Order, type ProblemAnswer } from '../../support/builders.js';
import { move, place } from '../../support/orders.js';
import { rows } from '../../support/sql.js';

interface List {
  data: Order[];
  next: string | null;
  count?: number;
}

const COUNT = 23;
const PLACED_TOGETHER = 7;

/** `rel` to address. */
function linksOf(headers: Headers): Record<string, string> {
  const found = (headers.get('link') ?? '').matchAll(/<([^>]+)>; rel="(\w+)"/g);
  return Object.fromEntries([...found].map(([, url = '', relation = '']) => [relation, url]));
}

describe('listing orders', () => {
  let service: TestApp;
  /** In the order in which they were placed. */
  const placed: Order[] = [];
  beforeAll(async () => {
    service = await startTestApp();
    const operator = service.as('operator');
    for (let i = 0; i < COUNT; i += 1) {
      const channel = i % 3 === 0 ? 'shop' : 'web';
      placed.push(
        await place(operator, {
          channel,
          externalRef: `ref-${String(i).padStart(3, '0')}`,
          customer: { ref: `c-${i % 4}` },
        }),
      );
    }
    for (const order of placed.slice(0, 9)) await move(operator, order.id, 'confirmed');
    for (const order of placed.slice(0, 4)) await move(operator, order.id, 'shipped');
    await move(operator, placed[22]?.id ?? '', 'canceled');
    await place(service.asOther('operator'), { externalRef: 'ref-000' });
    // Some were placed in the same microsecond: only the id tells which comes first.
    const together = placed.slice(10, 10 + PLACED_TOGETHER).map(({ id }) => id);
    await rows(
      service.database.superuserUrl,
      `SET session_replication_role = replica; UPDATE waybill.orders SET placed_at = '2026-03-01T00:00:00.000001Z', updated_at = '2026-03-02T00:00:00.000001Z'
       WHERE id IN (${together.map((id) => `'${id}'`).join(', ')})`,
    );
    const all = await service.as('viewer').get<List>('/v1/orders?limit=200');
    placed.splice(0, COUNT, ...placed.map(({ id }) => all.body.data.find((order) => order.id === id) as Order));
  });
  afterAll(() => service.close());

  const get = (query: string, role = 'viewer') => service.as(role).get<List & ProblemAnswer>(`/v1/orders${query}`);
  const refs = (list: List) => list.data.map(({ externalRef }) => externalRef);
  const sorted = (column: 'placedAt' | 'updatedAt', descends: boolean) => {
    const key = (order: Order) => `${order[column]} ${order.id}`;
    const up = placed.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
    return descends ? up.toReversed() : up;
  };

  /** Follows `next` to the end, then `prev` back to the beginning. */
  async function walk(query: string) {
    const forth: Order[][] = [];
    const back: Order[][] = [];
    let path: string | undefined = `/v1/orders${query}`;
    let last = '';
    for (let pages = 0; path !== undefined && pages < 50; pages += 1) {
      const answer = await service.as('viewer').get<List>(path);
      expect(answer.status).toBe(200);
      forth.push(answer.body.data);
      const links = linksOf(answer.headers);
      expect(links.next === undefined).toBe(answer.body.next === null);
      if (links.next) expect(new URL(links.next, 'http://x').searchParams.get('cursor')).toBe(answer.body.next);
      expect(links.prev === undefined).toBe(pages === 0);
      last = links.prev ?? '';
      path = links.next;
    }
    path = last || undefined;
    for (let pages = 0; path !== undefined && pages < 50; pages += 1) {
      const answer = await service.as('viewer').get<List>(path);
      expect(answer.status).toBe(200);
      back.unshift(answer.body.data);
      path = linksOf(answer.headers).prev;
    }
    return { forth, back };
  }

  it.each([
    ['-placedAt', 'placedAt', true],
    ['placedAt', 'placedAt', false],
    ['-updatedAt', 'updatedAt', true],
    ['updatedAt', 'updatedAt', false],
  ] as const)('sorted by %s pages forwards and back without a gap or a repetition', async (sort, column, descends) => {
    const { forth, back } = await walk(`?sort=${sort}&limit=5`);
    expect(forth.map((page) => page.length)).toEqual([5, 5, 5, 5, 3]);
    expect(forth.flat()).toEqual(sorted(column, descends));
    expect(back).toEqual(forth.slice(0, -1));
  });

  it('begins with the newest order when no sort is given', async () => {
    expect((await get('')).body.data).toEqual(sorted('placedAt', true));
  });

  it.each([
    ['?limit=1', COUNT],
    [`?limit=${COUNT}`, 1],
    [`?limit=${COUNT - 1}`, 2],
    ['?limit=200', 1],
    ['?status=pending,confirmed&limit=4', 5],
    ['?status=shipped&limit=3', 2],
    ['?channel=shop&limit=3', 3],
    ['?customerRef=c-1&limit=5', 2],
    ['?q=ref-00&limit=4', 3],
  ])('%s makes %i pages that are the same in both directions', async (query, pages) => {
    const { forth, back } = await walk(query);
    expect(forth).toHaveLength(pages);
    expect(back).toEqual(forth.slice(0, -1));
    const ids = forth.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const key = (order: Order) => `${order.placedAt} ${order.id}`;
    expect(forth.flat().map(key)).toEqual(forth.flat().map(key).toSorted().toReversed());
  });

  it('goes on behind the same order when others are placed or change meanwhile', async () => {
    const first = await get('?limit=5&sort=placedAt');
    const more = await place(service.as('operator'), { channel: 'late' });
    placed.push(more);
    const second = await get(`?limit=5&sort=placedAt&cursor=${first.body.next}`);
    expect(second.body.data).toEqual(sorted('placedAt', false).slice(5, 10));
    const newest = await get('?limit=5');
    expect(newest.body.data[0]).toEqual(more);
  });

  describe('filtered', () => {
    const where = (predicate: (order: Order) => boolean) =>
      sorted('placedAt', true)
        .filter(predicate)
        .map(({ externalRef }) => externalRef);

    it.each([
      ['status=pending', (o: Order) => o.status === 'pending'],
      ['status=shipped,confirmed', (o: Order) => ['shipped', 'confirmed'].includes(o.status)],
      ['status=confirmed,confirmed', (o: Order) => o.status === 'confirmed'],
      ['status=delivered', () => false],
      ['channel=shop', (o: Order) => o.channel === 'shop'],
      ['channel=nowhere', () => false],
      ['customerRef=c-3', (o: Order) => o.customer.ref === 'c-3'],
      ['externalRef=ref-007', (o: Order) => o.externalRef === 'ref-007'],
      ['externalRef=ref-00', () => false],
      ['q=ref-01', (o: Order) => o.externalRef?.startsWith('ref-01') === true],
      ['q=ref_01', () => false],
      ['q=ref%25', () => false],
      ['q=REF-01', () => false],
      [
        'status=pending&channel=shop&customerRef=c-3',
        (o: Order) => o.status === 'pending' && o.channel === 'shop' && o.customer.ref === 'c-3',
      ],
    ] as [string, (order: Order) => boolean][])('by %s', async (query, predicate) => {
      const { status, body } = await get(`?${query}`);
      expect(status).toBe(200);
      expect(refs(body)).toEqual(where(predicate));
    });

    it('by the beginning of the number, in small letters too', async () => {
      const [order] = placed;
      for (const q of [order?.number, order?.number.toLowerCase(), order?.number.slice(0, 6)]) {
        expect((await get(`?q=${q}`)).body.data.map(({ id }) => id)).toContain(order?.id);
      }
      expect((await get(`?q=${order?.number.slice(1)}`)).body.data.map(({ id }) => id)).not.toContain(order?.id);
    });

    it('by time: the beginning belongs to it and the end does not, to the microsecond', async () => {
      const together = placed.filter(({ placedAt }) => placedAt === '2026-03-01T00:00:00.000001Z');
      expect(together).toHaveLength(PLACED_TOGETHER);
      const at = (from: string, before: string) => get(`?placedAt[gte]=${from}&placedAt[lt]=${before}`);
      const [early, exact, late] = [0, 1, 2].map((micros) => `2026-03-01T00:00:00.00000${micros}Z`) as [
        string,
        string,
        string,
      ];
      expect((await at(exact, late)).body.data).toHaveLength(PLACED_TOGETHER);
      expect((await at(early, exact)).body.data).toHaveLength(0);
      expect((await at(late, '2026-03-01T00:00:01Z')).body.data).toHaveLength(0);
      expect((await at('2026-03-01T01:00:00.000001%2B01:00', late)).body.data).toHaveLength(PLACED_TOGETHER);
      // Between two microseconds: what is later than the earlier of them begins with the later one.
      expect((await at('2026-03-01T00:00:00.0000001Z', '2026-03-01T00:00:00.000001001Z')).body.data).toHaveLength(
        PLACED_TOGETHER,
      );
      expect((await at('2026-03-01T00:00:00.0000011Z', '2026-03-01T00:00:01Z')).body.data).toHaveLength(0);
      expect((await at(early, '2026-03-01T00:00:00.000000999Z')).body.data).toHaveLength(0);
      expect((await get('?updatedAt[gte]=2026-03-02T00:00:00.000002Z')).body.data).toHaveLength(
        placed.length - PLACED_TOGETHER,
      );
      expect((await get('?updatedAt[gte]=2026-03-02T00:00:00.000001Z')).body.data).toHaveLength(placed.length);
    });
  });

  it('shows a tenant its own orders only', async () => {
    const mine = (await get('?limit=200&count=exact')).body;
    expect(mine.count).toBe(placed.length);
    const others = await service.asOther('viewer').get<List>('/v1/orders?count=exact');
    expect([others.body.data.length, others.body.count]).toEqual([1, 1]);
    expect(mine.data.map(({ id }) => id)).not.toContain(others.body.data[0]?.id);
  });

  it('finds by a beginning after which the last character of Unicode comes, once or twice', async () => {
    const client = service.asOther('operator');
    for (const end of ['', 'x', '\u{10ffff}', '\u{10ffff}\u{10ffff}z'])
      await place(client, { externalRef: `end-${end}` });
    await place(client, { externalRef: 'end.' });
    const found = async (q: string) =>
      (await client.get<{ data: Order[] }>(`/v1/orders?q=${encodeURIComponent(q)}`)).body.data.length;
    expect(await found('end-')).toBe(4);
    expect(await found('end-\u{10ffff}')).toBe(2);
    expect(await found('end-\u{10ffff}\u{10ffff}')).toBe(1);
  });

  it('counts only when asked, and then all pages of the filter', async () => {
    expect(Object.keys((await get('?limit=2')).body)).toEqual(['data', 'next']);
    expect((await get('?limit=2&count=exact&status=shipped')).body).toMatchObject({ count: 4 });
    expect((await get('?limit=2&count=exact&status=shipped,confirmed')).body).toMatchObject({ count: 9 });
    const { next } = (await get('?limit=2&status=shipped')).body;
    expect((await get(`?limit=2&count=exact&status=shipped&cursor=${next}`)).body).toMatchObject({ count: 4 });
  });

  it('sends no Link header with the only page', async () => {
    expect((await get('?limit=200')).headers.has('link')).toBe(false);
  });

  it('sends orders as a read does', async () => {
    const { body } = await get('?limit=3');
    for (const order of body.data)
      expect((await service.as('viewer').get(`/v1/orders/${order.id}`)).body).toEqual(order);
  });

  it.each([
    ['limit', 'limit=0'],
    ['limit', 'limit=201'],
    ['limit', 'limit=-1'],
    ['limit', 'limit=1.5'],
    ['limit', 'limit=1e1'],
    ['limit', 'limit=0x10'],
    ['limit', 'limit=ten'],
    ['limit', 'limit='],
    ['limit', 'limit=5&limit=6'],
    ['limit', 'limit=99999999999999999999'],
    ['sort', 'sort=total'],
    ['sort', 'sort=placed_at;drop table orders'],
    ['sort', 'sort=--placedAt'],
    ['status', 'status=lost'],
    ['status', 'status=pending,lost'],
    ['status', 'status='],
    ['status', 'status=pending,'],
    ['status', "status=pending'"],
    ['channel', 'channel='],
    ['channel', `channel=${'x'.repeat(33)}`],
    ['customerRef', `customerRef=${'x'.repeat(101)}`],
    ['externalRef', 'externalRef=%00'],
    ['q', 'q='],
    ['q', 'q=%20'],
    ['q', 'q=a%00b'],
    ['q', `q=${'x'.repeat(101)}`],
    ['placedAt[gte]', 'placedAt[gte]=now'],
    ['placedAt[gte]', 'placedAt[gte]=2026-01-01T00:00:00+01:00'],
    ['placedAt[lt]', 'placedAt[lt]=2026-13-01T00:00:00Z'],
    ['updatedAt[gte]', 'updatedAt[gte]=infinity'],
    ['count', 'count=yes'],
  ])('refuses %s in ?%s', async (parameter, query) => {
    const { status, body, headers } = await get(`?${query}`);
    expect(status).toBe(400);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body.code).toBe('invalid-parameter');
    expect(faultsOf(body)).toEqual([parameter]);
  });

  it.each(['page', 'offset', 'Limit', 'placedAt', 'placedAt[gt]', 'updatedAt[lt]', '__proto__', 'constructor'])(
    'refuses the unknown parameter %s',
    async (parameter) => {
      const { status, body } = await get(`?${parameter}=1`);
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: 'unknown-parameter', errors: [{ parameter }] });
    },
  );

  describe('a cursor', () => {
    const nextOf = async (query: string) => (await get(query)).body.next ?? '';
    const refused = async (query: string) => {
      const { status, body } = await get(query);
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: 'invalid-cursor', errors: [{ parameter: 'cursor' }] });
    };

    it('belongs to its sort', async () => {
      await refused(`?sort=placedAt&cursor=${await nextOf('?limit=2')}`);
      await refused(`?sort=-updatedAt&cursor=${await nextOf('?limit=2')}`);
    });

    it.each([
      'status=pending',
      'channel=web',
      'customerRef=c-1',
      'q=ref',
      'placedAt[gte]=2026-01-01T00:00:00Z',
      'updatedAt[gte]=2026-01-01T00:00:00Z',
    ])('belongs to its filter: %s', async (filter) => {
      const [bare, filtered] = [await nextOf('?limit=2'), await nextOf(`?limit=2&${filter}`)];
      await refused(`?limit=2&${filter}&cursor=${bare}`);
      await refused(`?limit=2&cursor=${filtered}`);
      expect((await get(`?limit=2&${filter}&cursor=${filtered}`)).status).toBe(200);
    });

    it('does not belong to a limit, nor to how a filter is spelt', async () => {
      const cursor = await nextOf('?limit=2&status=pending,confirmed');
      expect((await get(`?limit=7&status=confirmed,pending&cursor=${cursor}`)).body.data).toHaveLength(7);
    });

    it('shows another tenant nothing of ours', async () => {
      const cursor = await nextOf('?limit=1');
      const { status, body } = await service.asOther('viewer').get<List>(`/v1/orders?cursor=${cursor}`);
      expect(status).toBe(200);
      expect(body.data.every(({ id }) => placed.every((order) => order.id !== id))).toBe(true);
    });

    it('that was tampered with is refused, or is another cursor, never an error', async () => {
      const cursor = await nextOf('?limit=2');
      for (let at = 0; at < cursor.length; at += 1) {
        const changed = `${cursor.slice(0, at)}${cursor[at] === 'A' ? 'B' : 'A'}${cursor.slice(at + 1)}`;
        const { status, body } = await get(`?cursor=${changed}`);
        if (status !== 200) expect([status, body.code]).toEqual([400, 'invalid-cursor']);
      }
    });

    const forge = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    it.each([
      ['empty', ''],
      ['no base64', '%25'],
      ['no JSON', Buffer.from('{').toString('base64url')],
      ['an object', forge({})],
      ['null', forge(null)],
      ['an empty array', forge([])],
      ['too long', 'A'.repeat(5000)],
      ['not UTF-8', Buffer.from([0xff, 0xfe]).toString('base64url')],
    ])('that is %s is refused', async (_what, cursor) => refused(`?cursor=${cursor}`));

    it.each([
      ['infinity', 'infinity', undefined],
      ['SQL', "2026-01-01' OR true --", undefined],
      ['a number', 5, undefined],
      ['an id that is none', undefined, 'x'],
      ['an id of null', undefined, null],
    ])('whose values are %s is refused', async (_what, at, id) => {
      const values = JSON.parse(Buffer.from(await nextOf('?limit=2'), 'base64url').toString()) as unknown[];
      if (at !== undefined) values[4] = at;
      if (id !== undefined) values[5] = id;
      await refused(`?cursor=${forge(values)}`);
    });
  });
});
