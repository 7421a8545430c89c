import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { faultsOf, type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { place, read } from '../../support/orders.js';
import { countRows } from '../../support/sql.js';

const LINE = { sku: 'A', name: 'A', quantity: 1, unitPrice: 1 };
const text = (changes: Record<string, unknown> = {}) => JSON.stringify(orderBody(changes));
/** A right body with one member replaced by raw JSON text. */
const raw = (member: string, json: string) => text({ [member]: '@@' }).replace('"@@"', json);
const line = (changes: Record<string, unknown>) =>
  orderBody({ lines: [{ ...LINE, ...changes }], expectedTotal: undefined });
const nested = (depth: number): unknown => (depth === 0 ? 1 : { a: nested(depth - 1) });

describe('bad input', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  /** Sends a body, expects this problem at these places, and that nothing was stored. */
  async function expectRefusal(
    body: unknown,
    status: number,
    code: string,
    places: readonly string[] | null,
    headers: Record<string, string> = {},
  ): Promise<ProblemAnswer> {
    const before = await countRows(service.database.superuserUrl);
    const answer = await service.as('operator').post<ProblemAnswer>('/v1/orders', body, headers);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.body).toMatchObject({ status, type: `/problems/${code}`, instance: '/v1/orders' });
    expect(answer.body.requestId).toBe(answer.headers.get('x-request-id'));
    expect(answer.body.title && answer.body.detail).toBeTruthy();
    if (places) expect(faultsOf(answer.body).toSorted()).toEqual([...places].toSorted());
    expect(await countRows(service.database.superuserUrl)).toEqual(before);
    return answer.body;
  }

  it('is none of the bodies that the tests below spoil', async () => {
    expect((await service.as('operator').post('/v1/orders', text())).status).toBe(201);
    expect((await service.as('operator').post('/v1/orders', raw('shipping', '490'))).status).toBe(201);
    expect((await service.as('operator').post('/v1/orders', line({}))).status).toBe(201);
  });

  describe('that is not strict JSON is malformed', () => {
    it.each([
      ['white space', '  ', ''],
      ['half an object', '{"channel":', '/channel'],
      ['two objects', '{}{}', ''],
      ['a trailing comma', '{"channel":"web",}', ''],
      ['single quotes', "{'channel':'web'}", ''],
      ['a comment', '{/* */}', ''],
      ['NaN', raw('shipping', 'NaN'), '/shipping'],
      ['Infinity', raw('shipping', '-Infinity'), '/shipping'],
      ['a leading zero', raw('shipping', '0490'), null],
      ['hexadecimal', raw('shipping', '0x1'), null],
      ['a byte order mark', `\u{FEFF}${text()}`, ''],
      ['a duplicate member', '{"channel":"a","channel":"a"}', '/channel'],
      ['a duplicate member behind an escape', '{"channel":"a","ch\\u0061nnel":"b"}', '/channel'],
      ['a duplicate member deep inside', raw('metadata', '{"a":[{"b":1,"b":2}]}'), '/metadata/a/0/b'],
      ['a NUL', raw('channel', '"we\\u0000b"'), '/channel'],
      ['a NUL in a name', raw('metadata', '{"a\\u0000":1}'), '/metadata'],
      ['a raw control character', raw('channel', '"we\u0001b"'), '/channel'],
      ['a lone high surrogate', raw('channel', '"\\ud83c"'), '/channel'],
      ['a lone low surrogate', raw('metadata', '{"a":"x\\udf75"}'), '/metadata/a'],
      ['surrogates in the wrong order', raw('metadata', '{"a":"\\udf75\\ud83c"}'), '/metadata/a'],
      ['an integer beyond 2^53', raw('shipping', '9007199254740993'), '/shipping'],
      ['2^53 itself', raw('metadata', '{"n":9007199254740992}'), '/metadata/n'],
      ['an integer beyond 2^53 below zero', raw('metadata', '{"n":-9007199254740993}'), '/metadata/n'],
      ['a decimal of more digits than a double has', raw('metadata', '{"n":123456.789012345678901}'), '/metadata/n'],
      ['a decimal that would be nothing', raw('metadata', '{"n":[1e-400]}'), '/metadata/n/0'],
      ['an integer beyond 2^53 with an exponent', raw('metadata', '{"n":1e30}'), '/metadata/n'],
      ['a number beyond every float', raw('metadata', '{"n":1e400}'), '/metadata/n'],
      ['an integer that would be rounded', raw('metadata', '{"n":1.00000000000000000001}'), '/metadata/n'],
      ['nesting of 33 levels', `${'['.repeat(33)}${']'.repeat(33)}`, null],
      ['nesting of 500,000 levels', '['.repeat(500_000), null],
      ['nesting of 100,000 levels in metadata', raw('metadata', '{"a":'.repeat(100_000)), null],
    ])('%s', async (_what, body, place) => {
      const { errors } = await expectRefusal(body, 400, 'malformed-body', null);
      expect(errors).toHaveLength(1);
      if (place !== null) expect(errors?.[0]?.pointer).toBe(place);
      expect(errors?.[0]).toMatchObject({ line: expect.any(Number), column: expect.any(Number) });
    });

    it.each([
      ['a stray continuation byte', [0x22, 0x80, 0x22]],
      ['an overlong slash', [0x22, 0xc0, 0xaf, 0x22]],
      ['a surrogate encoded as UTF-8', [0x22, 0xed, 0xa0, 0x80, 0x22]],
      ['a code point beyond U+10FFFF', [0x22, 0xf5, 0x80, 0x80, 0x80, 0x22]],
      ['UTF-16', [...Buffer.from('{}', 'utf16le')].concat(0xff)],
      ['a sequence that breaks off', [0x22, 0xe2, 0x82]],
    ])('bytes that are not UTF-8: %s', async (_what, bytes) => {
      await expectRefusal(Uint8Array.from(bytes), 400, 'malformed-body', null);
    });
  });

  describe('with values that an order cannot have fails validation', () => {
    const faults: [string, unknown, string[]][] = [
      ['an array', [], ['']],
      ['a text', JSON.stringify('order'), ['']],
      ['null', 'null', ['']],
      ['an empty object', {}, ['/channel', '/currency', '/customer', '/lines']],
      ['unknown members', orderBody({ status: 'delivered', Channel: 'x' }), ['/status', '/Channel']],
      ['an unknown member in an object', orderBody({ customer: { ref: 'c', iban: 'x' } }), ['/customer/iban']],
      ['an unknown member of a line', line({ tax: 1 }), ['/lines/0/tax']],
      ['a member that needs escaping in a pointer', orderBody({ 'a/b~c': 1 }), ['/a~1b~0c']],
      ['a tenant', orderBody({ tenantId: 2 }), ['/tenantId']],
      ['__proto__', raw('note', '1').replace('"note"', '"__proto__"'), ['/__proto__']],
      ['__proto__ with an object', raw('note', '{"channel":"x"}').replace('"note"', '"__proto__"'), ['/__proto__']],
      ['a constructor', orderBody({ constructor: { prototype: {} } }), ['/constructor']],
      ['lines as an object', orderBody({ lines: { 0: LINE, length: 1 } }), ['/lines']],
      ['lines as text', orderBody({ lines: 'x' }), ['/lines']],
      ['no lines', orderBody({ lines: [] }), ['/lines']],
      ['251 lines', orderBody({ lines: Array.from({ length: 251 }, () => LINE) }), ['/lines']],
      ['5,000 lines', orderBody({ lines: Array.from({ length: 5_000 }, () => LINE) }), ['/lines']],
      ['null as a line', orderBody({ lines: [LINE, null] }), ['/lines/1']],
      ['an array as a line', orderBody({ lines: [[]] }), ['/lines/0']],
      ['a customer without a reference', orderBody({ customer: { name: 'A' } }), ['/customer/ref']],
      ['a customer as an array', orderBody({ customer: [] }), ['/customer']],
      [
        'an address without its city',
        orderBody({ shippingAddress: { line1: 'x', country: 'DE' } }),
        ['/shippingAddress/city'],
      ],
      [
        'a country that there is not',
        orderBody({ shippingAddress: { line1: 'x', city: 'x', country: 'ZZ' } }),
        ['/shippingAddress/country'],
      ],
      [
        'a country in small letters',
        orderBody({ billingAddress: { line1: 'x', city: 'x', country: 'de' } }),
        ['/billingAddress/country'],
      ],
      ['a channel in capitals', orderBody({ channel: 'WEB' }), ['/channel']],
      ['a channel of 33 characters', orderBody({ channel: 'w'.repeat(33) }), ['/channel']],
      ['a channel with a line feed', orderBody({ channel: 'web\n' }), ['/channel']],
      ['a channel as a number', orderBody({ channel: 1 }), ['/channel']],
      ['a channel as an array of text', orderBody({ channel: ['web'] }), ['/channel']],
      ['an external reference of 101 characters', orderBody({ externalRef: 'x'.repeat(101) }), ['/externalRef']],
      ['an empty external reference', orderBody({ externalRef: '' }), ['/externalRef']],
      ['a blank external reference', orderBody({ externalRef: '\u3000' }), ['/externalRef']],
      ['a line feed in a reference', orderBody({ externalRef: 'a\nb' }), ['/externalRef']],
      ...[
        ['ends in a space', 'web-1 '],
        ['begins with a space', ' web-1'],
        ['has a no-break space', 'web\u00a01'],
        ['has an invisible character', 'web-1\u200b'],
        ['is not in normalization form C', 'Mu\u0308ller'],
        ['is a dot', '.'],
        ['is two dots', '..'],
      ].flatMap(([form, ref]): [string, Record<string, unknown>, string[]][] => [
        [`an external reference that ${form}`, orderBody({ externalRef: ref }), ['/externalRef']],
        [`a customer's reference that ${form}`, orderBody({ customer: { ref } }), ['/customer/ref']],
      ]),
      ['a reference as a number', orderBody({ externalRef: 5 }), ['/externalRef']],
      ['a currency that there is not', orderBody({ currency: 'EUX' }), ['/currency']],
      ['a currency in small letters', orderBody({ currency: 'eur' }), ['/currency']],
      ['an e-mail address that is none', orderBody({ customer: { ref: 'c', email: 'a@b' } }), ['/customer/email']],
      [
        'an e-mail address of 255 characters',
        orderBody({ customer: { ref: 'c', email: `${'a'.repeat(60)}@${'b'.repeat(188)}.test` } }),
        ['/customer/email'],
      ],
      ['a name of 201 characters', orderBody({ customer: { ref: 'c', name: 'x'.repeat(201) } }), ['/customer/name']],
      ['a name as an object', orderBody({ customer: { ref: 'c', name: { first: 'A' } } }), ['/customer/name']],
      ['no quantity', line({ quantity: 0 }), ['/lines/0/quantity']],
      ['half a piece', line({ quantity: 0.5 }), ['/lines/0/quantity']],
      ['a negative quantity', line({ quantity: -1 }), ['/lines/0/quantity']],
      ['a quantity as text', line({ quantity: '1' }), ['/lines/0/quantity']],
      ['a quantity as true', line({ quantity: true }), ['/lines/0/quantity']],
      ['a quantity as null', line({ quantity: null }), ['/lines/0/quantity']],
      ['a quantity as an array', line({ quantity: [1] }), ['/lines/0/quantity']],
      ['a quantity above the bound', line({ quantity: 1_000_001 }), ['/lines/0/quantity']],
      ['a price below zero', line({ unitPrice: -1 }), ['/lines/0/unitPrice']],
      ['a price in fractions', line({ unitPrice: 12.99 }), ['/lines/0/unitPrice']],
      ['a price above the bound', line({ unitPrice: 9_000_000_000_001 }), ['/lines/0/unitPrice']],
      [
        'a line whose amount leaves the bound',
        line({ quantity: 2, unitPrice: 9_000_000_000_000 }),
        ['/lines/0/unitPrice'],
      ],
      [
        'a line whose amount leaves 2^53',
        line({ quantity: 1_000_000, unitPrice: 9_000_000_000_000 }),
        ['/lines/0/unitPrice'],
      ],
      ['a discount above the amount', line({ quantity: 2, unitPrice: 5, discount: 11 }), ['/lines/0/discount']],
      ['a discount below zero', line({ discount: -1 }), ['/lines/0/discount']],
      ['a tax rate above 100 %', line({ taxRatePpm: 1_000_001 }), ['/lines/0/taxRatePpm']],
      ['a tax rate in fractions', line({ taxRatePpm: 0.19 }), ['/lines/0/taxRatePpm']],
      ['shipping above the bound', orderBody({ shipping: 9_000_000_000_001 }), ['/shipping']],
      ['shipping below zero', orderBody({ shipping: -1 }), ['/shipping']],
      ['an expected total as text', orderBody({ expectedTotal: '3582' }), ['/expectedTotal']],
      ['metadata as text', orderBody({ metadata: 'x' }), ['/metadata']],
      ['metadata as an array', orderBody({ metadata: [] }), ['/metadata']],
      [
        '51 members of metadata',
        orderBody({ metadata: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, i])) }),
        ['/metadata'],
      ],
      ['metadata of 9 levels', orderBody({ metadata: nested(9) }), ['/metadata']],
      ['metadata above 16 KiB', orderBody({ metadata: { a: 'x'.repeat(16_384) } }), ['/metadata']],
      ['metadata of many bytes in few characters', orderBody({ metadata: { a: '🍵'.repeat(4_100) } }), ['/metadata']],
      ['an empty name in metadata', orderBody({ metadata: { '': 1 } }), ['/metadata']],
      ['a name of 65 characters in metadata', orderBody({ metadata: { ['k'.repeat(65)]: 1 } }), ['/metadata']],
    ];
    it.each(faults)('%s', async (_what, body, places) => {
      await expectRefusal(body, 422, 'validation-failed', places);
    });

    it('tells all faults at once, but not endlessly', async () => {
      const many = orderBody({ channel: 7, lines: Array.from({ length: 250 }, () => ({ ...LINE, quantity: -1 })) });
      const { errors, detail } = await expectRefusal(many, 422, 'validation-failed', null);
      expect(errors).toHaveLength(50);
      expect(detail).toMatch(/has 251 faults; the first 50 are listed/);
    });

    it('a total other than the one that was expected', async () => {
      const problem = await expectRefusal(orderBody({ expectedTotal: 3581 }), 422, 'total-mismatch', null);
      expect(problem).toMatchObject({ expected: 3581, actual: 3582 });
    });
  });

  it.each([
    ['text/plain', text()],
    ['application/x-www-form-urlencoded', 'channel=web'],
    ['multipart/form-data; boundary=x', '--x--'],
    ['application/xml', '<order/>'],
    ['application/json; charset=latin1', text()],
    ['application/jsonp', text()],
    ['nonsense', text()],
    ['', text()],
  ])('of the type "%s" is an unsupported media type', async (type, body) => {
    await expectRefusal(body, 415, 'unsupported-media-type', null, { 'content-type': type });
  });

  it('that is compressed is an unsupported media type', async () => {
    await expectRefusal(text(), 415, 'unsupported-media-type', null, { 'content-encoding': 'gzip' });
  });

  it.each([1_048_577, 8_000_000])('of %i bytes is too large', async (bytes) => {
    await expectRefusal(' '.repeat(bytes), 413, 'payload-too-large', null);
  });

  it('of megabytes that comes in chunks is too large', async () => {
    const before = await countRows(service.database.superuserUrl);
    const { port } = new URL(service.baseUrl);
    const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      const outgoing = request(
        {
          port,
          host: '127.0.0.1',
          path: '/v1/orders',
          method: 'POST',
          headers: {
            authorization: `Bearer ${service.tenants[0].keys.operator}`,
            'content-type': 'application/json',
            'transfer-encoding': 'chunked',
          },
        },
        (response) => {
          let body = '';
          response.on('data', (chunk: Buffer) => (body += chunk.toString()));
          response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
        },
      );
      outgoing.on('error', reject);
      for (let i = 0; i < 20; i += 1) outgoing.write(' '.repeat(65_536));
      outgoing.end('{}');
    });
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'payload-too-large' });
    expect(await countRows(service.database.superuserUrl)).toEqual(before);
  });

  it('in the query is an unknown parameter', async () => {
    const before = await countRows(service.database.superuserUrl);
    const answer = await service.as('operator').post<ProblemAnswer>('/v1/orders?dryRun=true', orderBody());
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ code: 'unknown-parameter', errors: [{ parameter: 'dryRun' }] });
    expect(await countRows(service.database.superuserUrl)).toEqual(before);
  });

  it('in a header that is larger than any is 431', async () => {
    const { port } = new URL(service.baseUrl);
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => {
        socket.write(`GET /v1/orders HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`);
      });
      let received = '';
      socket.on('data', (chunk) => (received += chunk.toString()));
      socket.on('error', reject);
      socket.on('close', () => resolve(received));
    });
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(answer).toContain('application/problem+json');
    expect(answer).toContain('"code":"headers-too-large"');
  });

  it.each([
    ['PUT', '/v1/orders', 'GET, HEAD, POST'],
    ['DELETE', '/v1/orders', 'GET, HEAD, POST'],
    ['DELETE', '/v1/orders/01935c1e-7b3a-7c1d-9f00-000000000001', 'GET, HEAD, PATCH'],
    ['POST', '/v1/orders/01935c1e-7b3a-7c1d-9f00-000000000001', 'GET, HEAD, PATCH'],
    ['PATCH', '/v1/orders/01935c1e-7b3a-7c1d-9f00-000000000001/transitions', 'GET, HEAD, POST'],
    ['POST', '/v1/orders/01935c1e-7b3a-7c1d-9f00-000000000001/history', 'GET, HEAD'],
    ['POST', '/v1/workflows', 'GET, HEAD'],
  ])('as the method %s of %s is 405 with Allow: %s', async (method, path, allow) => {
    const { status, headers, body } = await service.as('operator').send<ProblemAnswer>(method, path);
    expect(status).toBe(405);
    expect(headers.get('allow')).toBe(allow);
    expect(body).toMatchObject({ code: 'method-not-allowed' });
  });

  it.each(['/v1/order', '/v2/orders', '/v1/orders/x/y/z', '/', '/v1/orders/'])(
    'as the address %s is 404',
    async (path) => {
      const { status, body } = await service.as('operator').get<ProblemAnswer>(path);
      expect(status).toBe(404);
      expect(body).toMatchObject({ code: 'not-found' });
    },
  );

  it.each(['/v1/orders/%E0%A4%A', '/v1/orders/%'])('as the address %s is a 4xx', async (path) => {
    const { status, headers } = await service.as('operator').get<ProblemAnswer>(path);
    expect([400, 404]).toContain(status);
    expect(headers.get('content-type')).toBe('application/problem+json');
  });

  it.each([
    ['an unknown member', { to: 'confirmed', force: true }, ['/force']],
    ['no state', {}, ['/to']],
    ['a state as a list', { to: ['confirmed'] }, ['/to']],
    ['a state with spaces', { to: 'confirmed ' }, ['/to']],
    ['metadata as text', { to: 'confirmed', metadata: 'x' }, ['/metadata']],
    ...['', ' ', '\t', '\n', '\u00a0', '\u200b', '\ufeff'].map((reason): [string, object, string[]] => [
      `a blank reason, ${JSON.stringify(reason)}`,
      { to: 'canceled', reason },
      ['/reason'],
    ]),
  ])('of a transition fails validation: %s', async (_what, body, places) => {
    const order = await place(service.as('operator'));
    const answer = await service.as('operator').post<ProblemAnswer>(`/v1/orders/${order.id}/transitions`, body);
    expect([answer.status, answer.body.code]).toEqual([422, 'validation-failed']);
    expect(faultsOf(answer.body)).toEqual(places);
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
  });
});

describe('input that is odd but right', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  it.each([
    ['emoji with modifiers and joiners', '👩🏽‍🚀🏳️‍🌈'],
    ['right to left, with marks', '‏שלום‎ مرحبا'],
    ['combining characters, not normalised', 'e\u0301 é Å'],
    ['quotes and SQL', `Robert'); DROP TABLE orders;-- "\\ \${x} {{y}}`],
    ['markup', '<script>alert(1)</script>&amp;'],
    ['a zero width space', 'a\u200bb'],
    ['the last code points', '\u{10FFFD}\u{FFFD}'],
  ])('is stored and returned exactly: %s', async (_what, name) => {
    const address = { name, line1: name, line2: name, city: name, region: name, country: 'IL' };
    const order = await place(service.as('operator'), {
      customer: { ref: 'c', name },
      shippingAddress: address,
      lines: [{ sku: name, name, quantity: 2, unitPrice: 1299, taxRatePpm: 190_000 }],
      metadata: { [name]: { [name]: [name] } },
    });
    const stored = await read(service.as('viewer'), order.id);
    expect(stored).toEqual(order);
    expect(stored).toMatchObject({
      customer: { ref: 'c', name },
      shippingAddress: address,
      lines: [{ sku: name, name }],
      metadata: { [name]: { [name]: [name] } },
    });
    expect(await read(service.as('viewer'), order.id, '?version=1')).toEqual(order);
  });

  it('keeps __proto__, constructor and the like in metadata as ordinary members', async () => {
    const metadata = '{"__proto__":{"admin":true},"constructor":1,"toString":null,"a":{"__proto__":[1]}}';
    const {
      status,
      text: answer,
      body,
    } = await service.as('operator').post<Order>('/v1/orders', raw('metadata', metadata));
    expect(status).toBe(201);
    const kept = (await service.as('viewer').get<Order>(`/v1/orders/${body.id}`)).text;
    expect(kept).toBe(answer);
    expect(JSON.stringify(JSON.parse(kept, undefined).metadata).length).toBe(metadata.length);
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
    const patched = await service
      .as('operator')
      .patch<Order>(`/v1/orders/${body.id}`, '{"metadata":{"__proto__":null,"a":{"__proto__":{"b":1}}}}', {
        'if-match': '*',
      });
    expect(patched.status).toBe(200);
    expect(Object.hasOwn(patched.body.metadata, '__proto__')).toBe(false);
    expect(JSON.stringify(patched.body.metadata)).toContain('"__proto__":{"b":1}');
  });

  it('takes metadata of many small values up to the size that it documents', async () => {
    const metadata = { n: Array.from({ length: 8_150 }, () => 0), s: 'x' };
    expect(JSON.stringify(metadata).length).toBeLessThan(16_384);
    const order = await place(service.as('operator'), { metadata });
    expect((await read(service.as('viewer'), order.id)).metadata).toEqual(metadata);
  });

  it('keeps fractions and exponents of metadata', async () => {
    const { body } = await service
      .as('operator')
      .post<Order>(
        '/v1/orders',
        raw('metadata', '{"a":0.1,"b":1.5e-7,"c":-0,"d":12.50e1,"e":5e-324,"f":9007199254740991}'),
      );
    expect((await read(service.as('viewer'), body.id)).metadata).toEqual({
      a: 0.1,
      b: 1.5e-7,
      c: 0,
      d: 125,
      e: 5e-324,
      f: Number.MAX_SAFE_INTEGER,
    });
  });

  it('adds up the largest order there can be', async () => {
    const most = { sku: 'A', name: 'A', quantity: 1, unitPrice: 9_000_000_000_000, taxRatePpm: 1_000_000 };
    const order = await place(service.as('operator'), {
      lines: Array.from({ length: 250 }, () => most),
      shipping: 9_000_000_000_000,
      expectedTotal: 4_509_000_000_000_000,
    });
    expect(order.total).toBe(4_509_000_000_000_000);
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
  });

  it('takes bounds exactly', async () => {
    const order = await place(service.as('operator'), {
      channel: 'w'.repeat(32),
      externalRef: '🍵'.repeat(100),
      customer: { ref: '🍵'.repeat(100), name: '🍵'.repeat(200) },
      lines: [{ sku: '🍵'.repeat(100), name: '🍵'.repeat(300), quantity: 1_000_000, unitPrice: 9_000_000 }],
      shipping: 0,
      expectedTotal: 9_000_000_000_000,
      metadata: nested(8) as Record<string, unknown>,
    });
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
  });

  it('takes null for what may be left out', async () => {
    const nothing = {
      externalRef: null,
      shippingAddress: null,
      billingAddress: null,
      shipping: null,
      expectedTotal: null,
      metadata: null,
    };
    const order = await place(service.as('operator'), { ...nothing, customer: { ref: 'c', name: null, email: null } });
    expect(order).toMatchObject({
      externalRef: null,
      shippingAddress: null,
      shipping: 0,
      metadata: {},
      customer: { ref: 'c' },
    });
    expect(Object.keys(order.customer)).toEqual(['ref']);
  });

  it('refuses a reference that the channel has already, and names the order', async () => {
    const order = await place(service.as('operator'), { externalRef: 'taken' });
    const again = await service.as('operator').post<ProblemAnswer>('/v1/orders', orderBody({ externalRef: 'taken' }));
    expect(again.status).toBe(409);
    expect(again.body).toMatchObject({ code: 'external-ref-taken', orderId: order.id });
    await place(service.as('operator'), { externalRef: 'taken', channel: 'shop' });
    await place(service.asOther('operator'), { externalRef: 'taken' });
  });
});
