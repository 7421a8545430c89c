import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { signEvent } from '../../../src/payments/providers/simulated-signature.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody, type ProblemAnswer } from '../../support/builders.js';
import { deliver, signed } from '../../support/payments.js';
import { rows } from '../../support/sql.js';
import { head, openConnection, sendThenRead, statusOf, textUntil } from '../../support/raw-request.js';
import { eventually } from '../../support/waiting.js';

const WEBHOOK = '/v1/payment-webhooks/simulated';
const MEBIBYTE = 1_048_576;

let service: TestApp;
let sockets: Socket[] = [];
beforeAll(async () => {
  service = await startTestApp({ env: { MAX_BODY_MEMORY: '8' } });
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await service.close();
});

const keyOf = (role: string) => service.tenants[0].keys[role] ?? '';
const open = async (): Promise<Socket> => {
  const socket = await openConnection(service.baseUrl);
  sockets.push(socket);
  // Of those that are refused, nobody waits for the end.
  socket.on('error', () => undefined);
  return socket;
};
/** Headers of an event whose signature has the right form and a fresh time, and nothing else. */
const plausible = () => ({ 'content-type': 'application/json', 'simulated-signature': signEvent('wrong', 'x') });

describe('a body of ten megabytes is answered, whoever sends it', () => {
  const big = Buffer.alloc(10_000_000, 'x');
  const headersOf = (role: string | null) => ({
    'content-type': 'application/json',
    'idempotency-key': randomUUID(),
    ...(role ? { authorization: `Bearer ${keyOf(role)}` } : {}),
  });

  it.each<[string, string, string | null, number]>([
    ['who may write', '/v1/orders', 'operator', 413],
    ['who may only read', '/v1/orders', 'viewer', 413],
    ['nobody knows', '/v1/orders', null, 413],
    ['asks for an unknown address', '/nowhere', 'operator', 413],
    ['nobody knows, at an unknown address', '/nowhere', null, 413],
    ['may be a provider', WEBHOOK, null, 413],
  ])('by a caller who %s: POST %s as %s is %i', async (_who, path, role, expected) => {
    const headers = headersOf(role);
    const length = { 'content-length': big.length };
    expect(await sendThenRead(service.baseUrl, head('POST', path, { ...headers, ...length }), big)).toBe(expected);
    // Python's urllib; the answer's last byte would take the connection with it.
    const closing = head('POST', path, { ...headers, ...length, connection: 'close' });
    expect(await sendThenRead(service.baseUrl, closing, big)).toBe(expected);
    const answer = await fetch(service.baseUrl + path, { method: 'POST', headers, body: big });
    expect(answer.status).toBe(expected);
    expect(((await answer.json()) as ProblemAnswer).status).toBe(expected);
  });

  it.each<[string, string | null, number]>([
    ['/v1/orders', 'operator', 413],
    ['/nowhere', null, 404],
    [WEBHOOK, null, 400],
  ])('also when it says nothing of its size: POST %s as %s is %i', async (path, role, expected) => {
    const chunked = Buffer.concat([Buffer.from(`${big.length.toString(16)}\r\n`), big, Buffer.from('\r\n0\r\n\r\n')]);
    const headers = { ...headersOf(role), 'transfer-encoding': 'chunked' };
    expect(await sendThenRead(service.baseUrl, head('POST', path, headers), chunked)).toBe(expected);
    const closing = head('POST', path, { ...headers, connection: 'close' });
    expect(await sendThenRead(service.baseUrl, closing, chunked)).toBe(expected);
  });

  it('and its connection serves the next request', async () => {
    const socket = await open();
    socket.write(head('POST', '/nowhere', { 'content-length': big.length }));
    socket.write(big);
    socket.write(head('GET', '/health/live', {}));
    const text = await textUntil(socket, (received) => received.includes('"status":"ok"'));
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
  });

  it('but one that never ends ends the connection', async () => {
    const socket = await open();
    socket.write(head('POST', '/nowhere', { 'content-length': 1_000_000_000 }));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    for (let sent = 0; sent < 100 && !socket.destroyed; sent += 1) {
      await new Promise((resolve) => socket.write(big.subarray(0, MEBIBYTE), resolve));
    }
    await closed;
  });
});

describe('an honest request', () => {
  it.each([{ 'content-type': 'application/json' }, { 'content-type': 'application/x-www-form-urlencoded' }, {}])(
    'without a body where none is needed is one without a body: %j',
    async (headers: object) => {
      await service.as('operator').post('/v1/orders', orderBody());
      const given = { 'idempotency-key': randomUUID(), ...(headers as Record<string, string>) };
      const erased = await service.as('admin').send('POST', '/v1/customers/c-42/erasure', { headers: given });
      expect(erased.status).toBe(200);
      // Whatever type it says, it is the same request.
      const again = { 'idempotency-key': given['idempotency-key'] };
      const repeated = await service.as('admin').send('POST', '/v1/customers/c-42/erasure', { headers: again });
      expect([repeated.status, repeated.headers.get('idempotency-replayed')]).toEqual([200, 'true']);
    },
  );

  it.each([
    ['POST', '/v1/customers/%00/erasure'],
    ['POST', '/v1/customers/a%00b/erasure'],
    ['GET', '/v1/orders/%00'],
    ['GET', '/v1/workflows/%00/diagram'],
    ['GET', '/v1/orders//history'],
    ['GET', '/v1/api-keys/'],
  ])('for what no record is called is 404, whoever asks: %s %s', async (method, path) => {
    for (const role of ['admin', 'viewer', 'nobody']) {
      const headers = { 'idempotency-key': randomUUID() };
      expect((await service.as(role).send(method, path, { headers })).status).toBe(404);
    }
  });
});

describe('a client that asks before it sends a body (Expect: 100-continue)', () => {
  const body = JSON.stringify(orderBody());
  const headers = (more: Record<string, string>) => ({
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    expect: '100-continue',
    ...more,
  });

  it('is told to go on only when the body is wanted', async () => {
    const socket = await open();
    const more = { authorization: `Bearer ${keyOf('operator')}`, 'idempotency-key': randomUUID() };
    socket.write(head('POST', '/v1/orders', headers(more)));
    await textUntil(socket, (received) => received.startsWith('HTTP/1.1 100 '));
    socket.write(body);
    const text = await textUntil(socket, (received) => received.includes('"number"'));
    expect(text).toMatch(/^HTTP\/1\.1 201 /);
  });

  it.each([{}, { connection: 'close' }])('is refused without having sent one (%j)', async (more: object) => {
    const socket = await open();
    socket.write(head('POST', '/v1/orders', headers(more as Record<string, string>)));
    expect(await statusOf(socket)).toBe(401);
  });
});

describe('an event that nobody knows the sender of', () => {
  it.each<[string, string, Record<string, string>, number]>([
    ['no signature', WEBHOOK, {}, 400],
    ['no form of a signature', WEBHOOK, { 'simulated-signature': 'yes' }, 400],
    ['an old signature', WEBHOOK, { 'simulated-signature': signEvent('wrong', 'x', 1_000_000_000) }, 400],
    ['no such provider', '/v1/payment-webhooks/nobody', {}, 404],
    ['a provider that is not set up', '/v1/payment-webhooks/stripe', { 'stripe-signature': 't=1,v1=0' }, 404],
    ['more than an event has', WEBHOOK, { ...plausible(), 'content-length': '262145' }, 413],
  ])('is refused before its body comes: %s', async (_what, path, headers, expected) => {
    const socket = await open();
    socket.write(head('POST', path, { 'content-type': 'application/json', 'content-length': '200000', ...headers }));
    expect(await statusOf(socket)).toBe(expected);
  });

  it('is not parsed before its signature is checked, and what is signed and no JSON is malformed', async () => {
    const broken = '['.repeat(200_000);
    const wrong = await deliver(service.as('operator'), { body: broken, headers: plausible() });
    expect(wrong.body).toMatchObject({ code: 'invalid-parameter', errors: [{ parameter: 'signature' }] });
    const [row] = await rows<{ secret: string }>(
      service.database.superuserUrl,
      'SELECT secret FROM simulated_provider.webhook_secret',
    );
    const right = { 'simulated-signature': signEvent(row?.secret ?? '', broken) };
    const answer = await deliver(service.as('operator'), { body: broken, headers: right });
    expect(answer.body).toMatchObject({ status: 400, code: 'malformed-body' });
  });

  it('takes no memory that others need, though it never ends', async () => {
    const unfinished = await Promise.all(
      Array.from({ length: 60 }, async () => {
        const socket = await open();
        socket.write(head('POST', WEBHOOK, { ...plausible(), 'content-length': 250_000 }));
        socket.write(Buffer.alloc(200_000, '['));
        return socket;
      }),
    );
    // A quarter of 8 MiB holds ten of them; those that came first give way.
    const refused = await Promise.all(unfinished.slice(0, 45).map(statusOf));
    expect(new Set(refused)).toEqual(new Set([503]));
    const event = await signed(service, { id: randomUUID(), type: 'payment.reviewed', metadata: {} });
    expect((await deliver(service.as('operator'), event)).status).toBe(200);
    expect((await service.as('operator').post('/v1/orders', orderBody())).status).toBe(201);
    for (const socket of unfinished) socket.destroy();
  });
});

describe('connections', () => {
  it('beyond what the settings allow are closed as they come, and there is room again when some end', async () => {
    const small = await startTestApp({ env: { MAX_CONNECTIONS: '10' } });
    const held = await Promise.all(Array.from({ length: 10 }, () => openConnection(small.baseUrl)));
    const eleventh = await openConnection(small.baseUrl);
    const closed = new Promise((resolve) => eleventh.once('close', resolve));
    eleventh.on('error', () => undefined).resume();
    await closed;
    held.pop()?.destroy();
    await eventually(async () => {
      const socket = await openConnection(small.baseUrl);
      socket.on('error', () => undefined);
      socket.write(head('GET', '/health/live', { connection: 'close' }));
      return (await textUntil(socket, () => false)).startsWith('HTTP/1.1 200');
    });
    for (const socket of held) socket.destroy();
    await small.close();
  });
});
