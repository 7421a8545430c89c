import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { faultsOf, type Order, type ProblemAnswer } from '../../support/builders.js';
import { place, placeIn, read, WAYS } from '../../support/orders.js';
import { countRows } from '../../support/sql.js';

describe('patching an order', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const patch = (id: string, body: unknown, ifMatch: string | null = '*', role = 'operator') =>
    service.as(role).patch<Order & ProblemAnswer>(`/v1/orders/${id}`, body, ifMatch ? { 'if-match': ifMatch } : {});

  describe('with conditions', () => {
    it('without If-Match is 428 and changes nothing', async () => {
      const order = await place(service.as('operator'));
      const { status, body, headers } = await patch(order.id, { metadata: { a: 1 } }, null);
      expect(status).toBe(428);
      expect(headers.get('content-type')).toBe('application/problem+json');
      expect(body).toMatchObject({ code: 'precondition-required' });
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });

    it('with a stale If-Match is 412 and tells the version in force', async () => {
      const order = await place(service.as('operator'));
      expect((await patch(order.id, { metadata: { a: 1 } }, '"1"')).status).toBe(200);
      const { status, body } = await patch(order.id, { metadata: { a: 2 } }, '"1"');
      expect(status).toBe(412);
      expect(body).toMatchObject({ code: 'stale-version', current: 2 });
      expect((await read(service.as('viewer'), order.id)).metadata).toMatchObject({ a: 1 });
    });

    it('with the ETag that was read is 200 with the next one', async () => {
      const order = await place(service.as('operator'));
      const { status, body, headers } = await patch(order.id, { metadata: { a: 1 } }, '"1"');
      expect(status).toBe(200);
      expect(headers.get('etag')).toBe('"2"');
      expect(body).toMatchObject({ version: 2, metadata: { campaign: 'spring', a: 1 } });
      expect(await read(service.as('viewer'), order.id)).toEqual(body);
    });

    it.each(['"0"', '"99999999999"', '"abc"', 'W/"1"', '""'])('never matches the tag %s', async (tag) => {
      const { id } = await place(service.as('operator'));
      expect((await patch(id, { metadata: { a: 1 } }, tag)).status).toBe(412);
    });

    it.each(['1', '"1', '"1", "2"', 'x'])('cannot read the tag %s', async (tag) => {
      const { id } = await place(service.as('operator'));
      const { status, body } = await patch(id, { metadata: { a: 1 } }, tag);
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: 'invalid-parameter', errors: [{ parameter: 'If-Match' }] });
    });

    it('is for writers', async () => {
      const order = await place(service.as('operator'));
      for (const role of ['viewer', 'auditor']) {
        const { status, body } = await patch(order.id, { metadata: { a: 1 } }, '*', role);
        expect(status).toBe(403);
        expect(body).toMatchObject({ code: 'role-required', roles: ['operator', 'admin'] });
      }
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });

    it('does not find an order of another tenant', async () => {
      const order = await place(service.asOther('operator'));
      expect((await patch(order.id, { metadata: { a: 1 } })).status).toBe(404);
      expect(await read(service.asOther('operator'), order.id)).toEqual(order);
    });
  });

  describe('that changes nothing', () => {
    it.each([
      ['an empty patch', {}],
      ['values that are there already', { metadata: { campaign: 'spring' }, shipping: 490 }],
      ['members in another order', { shippingAddress: { country: 'DE', city: 'Berlin' } }],
      ['null for what is not there', { billingAddress: null, metadata: { none: null } }],
    ])('keeps the version, the time and the events: %s', async (_what, body) => {
      const order = await place(service.as('operator'));
      const before = await countRows(service.database.superuserUrl);
      const answer = await patch(order.id, body, '"1"');
      expect(answer.status).toBe(200);
      expect(answer.headers.get('etag')).toBe('"1"');
      expect(answer.body).toEqual(order);
      expect(await countRows(service.database.superuserUrl)).toEqual(before);
    });
  });

  describe('with null', () => {
    it('takes a member of metadata away', async () => {
      const { id } = await place(service.as('operator'), { metadata: { a: 1, b: { c: 1, d: 2 } } });
      expect((await patch(id, { metadata: { a: null, b: { c: null } } })).body.metadata).toEqual({ b: { d: 2 } });
    });

    it('takes an address away, and gives it back', async () => {
      const address = { line1: '2 Side St', city: 'Bremen', country: 'DE' };
      const { id } = await place(service.as('operator'));
      expect((await patch(id, { shippingAddress: null })).body.shippingAddress).toBeNull();
      expect((await read(service.as('viewer'), id)).shippingAddress).toBeNull();
      expect((await patch(id, { shippingAddress: address })).body.shippingAddress).toEqual(address);
      expect((await read(service.as('viewer'), id, '?version=2')).shippingAddress).toBeNull();
      expect((await read(service.as('viewer'), id, '?version=1')).shippingAddress).toMatchObject({ city: 'Berlin' });
    });

    it('takes a member of the customer away, but not the reference', async () => {
      const { id } = await place(service.as('operator'));
      expect((await patch(id, { customer: { email: null } })).body.customer).toEqual({
        ref: 'c-42',
        name: 'Ada Example',
      });
    });

    it.each([
      ['/lines', { lines: null }],
      ['/customer', { customer: null }],
      ['/shippingAddress/city', { shippingAddress: { city: null } }],
    ])('cannot take away what an order must have: %s', async (pointer, body) => {
      const order = await place(service.as('operator'));
      const answer = await patch(order.id, body);
      expect(answer.status).toBe(422);
      expect(answer.body.code).toBe('validation-failed');
      expect(faultsOf(answer.body)).toEqual([pointer]);
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });
  });

  describe('by state', () => {
    const line = { sku: 'POT-1', name: 'Pot', quantity: 1, unitPrice: 1000 };
    const table = [
      { what: 'metadata', body: { metadata: { x: 1 } }, states: Object.keys(WAYS) },
      { what: 'customer', body: { customer: { name: 'Bea Example' } }, states: ['pending', 'confirmed'] },
      { what: 'shippingAddress', body: { shippingAddress: { line1: '9 New St' } }, states: ['pending', 'confirmed'] },
      {
        what: 'billingAddress',
        body: { billingAddress: { line1: '1', city: 'Ulm', country: 'DE' } },
        states: ['pending', 'confirmed'],
      },
      { what: 'lines', body: { lines: [line] }, states: ['pending'] },
      { what: 'shipping', body: { shipping: 0 }, states: ['pending'] },
    ];
    const cases = table.flatMap((row) =>
      Object.keys(WAYS).map((state) => ({ ...row, state, may: row.states.includes(state) })),
    );

    it.each(cases)('$what of an order that is $state may change: $may', async ({ what, body, state, may }) => {
      const order = await placeIn(service.as('operator'), state);
      const answer = await patch(order.id, body, `"${order.version}"`);
      if (may) {
        expect(answer.status).toBe(200);
        expect(answer.body.version).toBe(order.version + 1);
        expect(answer.body).toMatchObject(body);
        expect(await read(service.as('viewer'), order.id)).toEqual(answer.body);
      } else {
        expect(answer.status).toBe(409);
        expect(answer.body).toMatchObject({ code: 'not-editable', state, fields: [what] });
        expect(await read(service.as('viewer'), order.id)).toEqual(order);
      }
    });

    it('stores nothing of a patch of which a part may not change', async () => {
      const order = await placeIn(service.as('operator'), 'confirmed');
      const answer = await patch(order.id, { metadata: { x: 1 }, shipping: 1, lines: [line] });
      expect(answer.status).toBe(409);
      expect(answer.body).toMatchObject({ code: 'not-editable', fields: ['lines', 'shipping'] });
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });

    it.each(['channel', 'externalRef', 'currency', 'id', 'number', 'status', 'version', 'total', 'placedAt'])(
      '%s never changes',
      async (field) => {
        const order = await place(service.as('operator'));
        const answer = await patch(order.id, { [field]: field === 'version' || field === 'total' ? 5 : 'x' });
        expect(answer.status).toBe(422);
        expect(answer.body).toMatchObject({ code: 'validation-failed', errors: [{ pointer: `/${field}` }] });
        expect(await read(service.as('viewer'), order.id)).toEqual(order);
      },
    );

    it('the reference of the customer never changes', async () => {
      const order = await place(service.as('operator'));
      const answer = await patch(order.id, { customer: { ref: 'c-43' } });
      expect(answer.status).toBe(422);
      expect(answer.body.errors).toMatchObject([{ pointer: '/customer/ref' }]);
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });
  });

  describe('the money of a pending order', () => {
    it('computes the totals anew from the lines, which are replaced as a whole', async () => {
      const { id } = await place(service.as('operator'));
      const lines = [
        { sku: 'A', name: 'A', quantity: 3, unitPrice: 333, taxRatePpm: 70_000 },
        { sku: 'B', name: 'B', quantity: 1, unitPrice: 1000, discount: 100 },
      ];
      const more = await patch(id, { lines, shipping: 5 });
      // 3 × 333 = 999, tax 69.93 → 70; 1000 − 100; 5 shipping
      expect(more.body).toMatchObject({ subtotal: 1999, discount: 100, tax: 70, shipping: 5, total: 1974 });
      expect(more.body.lines.map(({ lineNo, sku }) => [lineNo, sku])).toEqual([
        [1, 'A'],
        [2, 'B'],
      ]);
      const fewer = await patch(id, { lines: [lines[1]] });
      expect(fewer.body).toMatchObject({ subtotal: 1000, discount: 100, tax: 0, total: 905, version: 3 });
      expect(fewer.body.lines).toHaveLength(1);
      expect((await read(service.as('viewer'), id, '?version=2')).lines).toEqual(more.body.lines);
    });

    it('grows to 250 lines and no further', async () => {
      const line = { sku: 'A', name: 'A', quantity: 1, unitPrice: 1 };
      const { id } = await place(service.as('operator'));
      const most = await patch(id, { lines: Array.from({ length: 250 }, () => line), shipping: 0 });
      expect(most.body).toMatchObject({ total: 250 });
      const tooMany = await patch(id, { lines: Array.from({ length: 251 }, () => line) });
      expect(tooMany.status).toBe(422);
      expect(tooMany.body.errors).toMatchObject([{ pointer: '/lines' }]);
    });

    it.each([
      ['/lines/0/discount', { lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 5, discount: 6 }] }],
      ['/lines/0/quantity', { lines: [{ sku: 'A', name: 'A', quantity: 0, unitPrice: 5 }] }],
      ['/lines/0/colour', { lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 5, colour: 'red' }] }],
      ['/lines/1', { lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 5 }, null] }],
      ['/lines', { lines: { 0: {} } }],
      ['/shipping', { shipping: 1.5 }],
      ['/metadata', { metadata: 'x' }],
      ['/customer/email', { customer: { email: 'nobody' } }],
      ['/shippingAddress/country', { shippingAddress: { country: 'XX' } }],
      ['/note', { note: 'x' }],
      ['', []],
      ['', 'text'],
      ['', null],
    ])('points at %s of what the patch results in', async (pointer, body) => {
      const order = await place(service.as('operator'));
      const answer = await patch(order.id, typeof body === 'string' ? JSON.stringify(body) : body);
      expect(answer.status).toBe(422);
      expect(answer.body.code).toBe('validation-failed');
      expect(faultsOf(answer.body)).toEqual([pointer]);
      expect(await read(service.as('viewer'), order.id)).toEqual(order);
    });

    it('takes application/json as well, and nothing else', async () => {
      const { id } = await place(service.as('operator'));
      const as = (type: string) =>
        service.as('operator').send<ProblemAnswer>('PATCH', `/v1/orders/${id}`, {
          body: '{"metadata":{"a":1}}',
          headers: { 'content-type': type, 'if-match': '*' },
        });
      expect((await as('application/json')).status).toBe(200);
      expect((await as('application/json-patch+json')).status).toBe(415);
    });
  });
});
