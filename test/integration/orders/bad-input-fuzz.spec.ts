import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Client } from 'pg';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { place } from '../../support/orders.js';
import { countRows } from '../../support/sql.js';

/** Values that a careless or hostile client puts anywhere. */
const oddValue = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    '',
    ' ',
    '0',
    [],
    {},
    [[]],
    { a: { b: 1 } },
    -1,
    0,
    1.5,
    2 ** 53,
    1e21,
    -0,
    5e-324,
  ),
  fc.constantFrom<unknown>(
    '\0',
    '\ud800',
    '\u2028',
    'x'.repeat(5_000),
    '__proto__',
    "'; DROP TABLE orders; --",
    '1e3',
    'NaN',
  ),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.jsonValue({ maxDepth: 4 }),
);

const oddName = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', '', 'a/b~c', 'then', 'length', '0'),
  fc.string({ maxLength: 8 }),
);

type Json = unknown;
interface Mutation {
  /** Which of all places in the body, counted through. */
  place: number;
  kind: 'replace' | 'remove' | 'add' | 'repeat';
  name: string;
  value: Json;
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  place: fc.nat(500),
  kind: fc.constantFrom('replace', 'remove', 'add', 'repeat'),
  name: oddName,
  value: oddValue,
});

function setOwn(target: object, name: string | number, value: Json): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}

function placesIn(value: Json): { parent: object; name: string }[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [{ parent: value, name }, ...placesIn(member)]);
}

function mutate(body: Json, { place, kind, name, value }: Mutation): void {
  const places = placesIn(body);
  const chosen = places[place % places.length];
  if (!chosen) return;
  const { parent } = chosen;
  const copy = structuredClone(value);
  if (kind === 'replace') setOwn(parent, chosen.name, copy);
  else if (Array.isArray(parent)) {
    if (kind === 'remove') parent.splice(Number(chosen.name), 1);
    else parent.push(kind === 'add' ? copy : structuredClone(parent[0]));
  } else if (kind === 'remove') Reflect.deleteProperty(parent, chosen.name);
  else setOwn(parent, name, kind === 'add' ? copy : structuredClone(Reflect.get(parent, chosen.name)));
}

/** The text is spoilt now and then only, or hardly a body would be read. */
function rarely<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 11, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
}

/** A right body with everything in it, spoilt in a few places; the text of it, spoilt now and then as well. */
const spoiltBody = fc
  .record({
    note: fc.string({ unit: 'grapheme', maxLength: 20 }),
    mutations: fc.array(mutation, { maxLength: 3 }),
    cut: rarely(fc.nat(900)),
    insert: rarely(
      fc.record({
        at: fc.nat(900),
        text: fc.constantFrom('"', '}', ',', '\\u0000', '\\ud83c', '1e999', '\u0000', ':'),
      }),
    ),
  })
  .map(({ note, mutations, cut, insert }) => {
    const address = { name: 'A', line1: '1', line2: '2', city: 'C', region: 'R', postalCode: '1', country: 'DE' };
    const body = orderBody({
      billingAddress: address,
      metadata: { a: [1, { b: null }], note },
      expectedTotal: undefined,
    });
    const plain = JSON.parse(JSON.stringify(body)) as Json;
    for (const one of mutations) mutate(plain, one);
    const text = JSON.stringify(plain);
    if (cut !== null) return text.slice(0, cut);
    return insert === null ? text : text.slice(0, insert.at) + insert.text + text.slice(insert.at);
  });

describe('any body at all', () => {
  let service: TestApp;
  let order: Order;
  let counter: Client;
  beforeAll(async () => {
    service = await startTestApp();
    counter = new Client({ connectionString: service.database.superuserUrl });
    await counter.connect();
    order = await place(service.as('operator'));
  });
  afterAll(async () => {
    await counter.end();
    await service.close();
  });

  function expectProblem(status: number, type: string | null, problem: ProblemAnswer): void {
    expect(type).toBe('application/problem+json');
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(problem.status).toBe(status);
    if (['validation-failed', 'malformed-body'].includes(problem.code)) {
      expect(problem.errors?.length).toBeGreaterThan(0);
      for (const { pointer, detail } of problem.errors ?? []) {
        expect(pointer === '' || pointer?.startsWith('/')).toBe(true);
        expect(detail).toBeTruthy();
      }
    }
  }

  it('is placed as a whole, or refused with a 4xx problem and nothing stored', async () => {
    let before = await countRows(counter);
    const seen = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(spoiltBody, async (body) => {
        const answer = await service.as('operator').post<Order & ProblemAnswer>('/v1/orders', body);
        seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
        const after = await countRows(counter);
        if (answer.status === 201) {
          expect(after.orders).toBe((before.orders ?? 0) + 1);
          expect(after.order_lines).toBe((before.order_lines ?? 0) + answer.body.lines.length);
          expect((await service.as('viewer').get(`/v1/orders/${answer.body.id}`)).body).toEqual(answer.body);
        } else {
          expectProblem(answer.status, answer.headers.get('content-type'), answer.body);
          expect(after).toEqual(before);
        }
        before = after;
      }),
      { numRuns: 150 },
    );
    // A generator that spoils nothing, or everything, would show nothing. Far below what is to be expected: the bodies are random.
    expect(seen.get(201)).toBeGreaterThan(3);
    expect(seen.get(422)).toBeGreaterThan(15);
    expect(seen.get(400)).toBeGreaterThan(3);
  });

  it('as a patch is applied, or refused with a 4xx problem and the order as it was', async () => {
    const path = `/v1/orders/${order.id}`;
    let version = (await service.as('viewer').get<Order>(path)).body.version;
    await fc.assert(
      fc.asyncProperty(spoiltBody, fc.nat(9), async (body, chance) => {
        // The whole body holds members that no patch may change: mostly only the changeable ones are sent.
        const patch =
          chance === 0 ? body : body.replace(/"channel":.*?"customer":/s, '"customer":').replace('"ref":"c-42",', '');
        version = (await service.as('viewer').get<Order>(path)).body.version;
        const answer = await service.as('operator').patch<Order & ProblemAnswer>(path, patch, { 'if-match': '*' });
        if (answer.status === 200) expect([version, version + 1]).toContain(answer.body.version);
        else expectProblem(answer.status, answer.headers.get('content-type'), answer.body);
        const now = (await service.as('viewer').get<Order>(path)).body;
        expect(now.version).toBe(answer.status === 200 ? answer.body.version : version);
        version = now.version;
      }),
      { numRuns: 100 },
    );
    expect(version).toBeGreaterThan(3);
  });

  it('as a query is a page, or refused with a 400 problem', async () => {
    const names = [
      'limit',
      'cursor',
      'status',
      'channel',
      'q',
      'sort',
      'count',
      'placedAt[gte]',
      'updatedAt[gte]',
      'x[y]',
    ];
    const value = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 20 }),
      fc.constantFrom('1', 'pending', 'web', '%', '\0'),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom(...names), value), { maxLength: 4 }), async (pairs) => {
        const query = pairs.map(([name, text]) => `${name}=${encodeURIComponent(text)}`).join('&');
        const answer = await service.as('viewer').get<ProblemAnswer>(`/v1/orders?${query}`);
        if (answer.status !== 200) expectProblem(answer.status, answer.headers.get('content-type'), answer.body);
      }),
      { numRuns: 100 },
    );
  });
});
