import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { DEFAULT_PAGE } from '../validation/index.js';
import {
  countStatement,
  detailsStatement,
  firstBeyond,
  ORDER_SORTS,
  type OrderPage,
  pageStatement,
  USUAL_LIMIT,
} from './order-page.js';

const edge = { at: '2026-03-01T00:00:00.000001Z', id: '01935c1e-7b3a-7c1d-9f00-000000000001' };
const page = (changes: Partial<OrderPage> = {}): OrderPage => ({
  filter: {},
  sort: '-placedAt',
  edge: null,
  direction: 'next',
  limit: 51,
  ...changes,
});

describe('the statement of a page', () => {
  it.each([
    ['-placedAt', 'next', 'ORDER BY placed_at DESC, id DESC', '(placed_at, id) <'],
    ['-placedAt', 'prev', 'ORDER BY placed_at ASC, id ASC', '(placed_at, id) >'],
    ['placedAt', 'next', 'ORDER BY placed_at ASC, id ASC', '(placed_at, id) >'],
    ['placedAt', 'prev', 'ORDER BY placed_at DESC, id DESC', '(placed_at, id) <'],
    ['-updatedAt', 'next', 'ORDER BY updated_at DESC, id DESC', '(updated_at, id) <'],
    ['updatedAt', 'prev', 'ORDER BY updated_at DESC, id DESC', '(updated_at, id) <'],
  ] as const)('sorted by %s and going %s reads in the order %s', (sort, direction, order, comparison) => {
    const { text, values } = pageStatement(7, page({ sort, direction, edge }));
    expect(text).toContain(order);
    expect(text).toContain(`${comparison} ($2::timestamptz, $3::uuid)`);
    expect(values).toEqual([7, edge.at, edge.id, 51]);
  });

  it('is prepared where it is the usual one, under a name for each text', () => {
    expect(USUAL_LIMIT).toBe(DEFAULT_PAGE + 1);
    const details = 'SELECT id FROM waybill.order_details WHERE tenant_id = $1';
    const shapes = ORDER_SORTS.flatMap((sort) =>
      (['next', 'prev'] as const).flatMap((direction) =>
        [edge, null].map((from) => detailsStatement(7, page({ sort, direction, edge: from }), details)),
      ),
    );
    const texts = new Map(shapes.map((shape) => [shape?.name, shape?.text]));
    for (const shape of shapes) expect(shape).toMatchObject({ name: expect.any(String), text: texts.get(shape?.name) });
    expect(detailsStatement(7, page({ limit: 50 }), details)).toBeNull();
    expect(detailsStatement(7, page({ filter: { channel: 'web' } }), details)).toBeNull();
  });

  it('reads each of several states in its own order, and one state without a union', () => {
    expect(pageStatement(7, page({ filter: { status: ['a'] } })).text).not.toContain('UNION');
    const { text } = pageStatement(7, page({ filter: { status: ['a', 'b', 'c'] } }));
    expect(text.match(/UNION ALL/g)).toHaveLength(2);
    expect(text.match(/LIMIT/g)).toHaveLength(4);
  });

  const text = fc.string({ unit: 'binary', maxLength: 20 });
  const pages = fc.record({
    filter: fc.record(
      {
        status: fc.uniqueArray(text, { minLength: 1, maxLength: 5 }),
        channel: text,
        customerRef: text,
        externalRef: text,
        placedFrom: text,
        placedBefore: text,
        updatedFrom: text,
        prefix: text,
      },
      { requiredKeys: [] },
    ),
    sort: fc.constantFrom(...ORDER_SORTS),
    edge: fc.option(fc.record({ at: text, id: text })),
    direction: fc.constantFrom('next' as const, 'prev' as const),
    limit: fc.integer({ min: 1, max: 201 }),
  });

  it('holds no text of the request, names every parameter once in order, and says the tenant in every branch', () => {
    fc.assert(
      fc.property(pages, fc.nat(), (shape, tenant) => {
        for (const { text: sql, values } of [pageStatement(tenant, shape), countStatement(tenant, shape)]) {
          expect(sql).toMatch(/^[A-Za-z0-9_.,$()<>=:* ]+$/);
          const used = new Set([...sql.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)));
          expect([...used].toSorted((a, b) => a - b)).toEqual(values.map((_, index) => index + 1));
          expect(values[0]).toBe(tenant);
          expect(sql.match(/FROM waybill\.orders/g)?.length).toBe(sql.match(/tenant_id = \$1/g)?.length);
        }
      }),
    );
  });
});

describe('the end of a prefix', () => {
  const byCodePoints = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  const text = fc.string({
    unit: fc.oneof(
      fc.constantFrom('\ud7ff', '\ue000', '\u{10ffff}', '\u{10fffe}', 'a'),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    ),
    maxLength: 6,
  });

  it('parts what begins with it from what comes behind, whatever follows', () => {
    fc.assert(
      fc.property(text, text, (prefix, other) => {
        const end = firstBeyond(prefix);
        const isWithin = (found: string) =>
          byCodePoints(found, prefix) >= 0 && (end === null || byCodePoints(found, end) < 0);
        expect(isWithin(prefix + other)).toBe(true);
        expect(isWithin(other)).toBe(other.startsWith(prefix));
      }),
    );
  });

  it('is the next character, beyond surrogates, and a shorter text behind the last one', () => {
    expect(firstBeyond('web-')).toBe('web.');
    expect(firstBeyond('a\ud7ff')).toBe('a\ue000');
    expect(firstBeyond('a\u{10ffff}\u{10ffff}')).toBe('b');
    expect(firstBeyond('\u{10ffff}')).toBeNull();
  });
});
