import net from 'node:net';

import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Body, Controller, Delete, Get, Logger, Module, Param, Patch, Post, Query, Req } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, Max, Min } from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { illegalTransition } from './workflow/index.js';

import { createValidationPipe, IsMetadata, IsText, UuidParamPipe } from './validation/index.js';
import { DomainError, forbidden } from './problems/index.js';
import {
  ProblemFilter,
  ProblemPagesController,
  type HandedHooks,
  prepareServer,
  registerRequestPath,
  serverOptions,
} from './http/index.js';

class ThingBody {
  @IsText(1, 10)
  name!: string;

  @IsOptional()
  @IsMetadata()
  metadata?: Record<string, unknown>;
}

class ThingQuery {
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(200)
  limit?: number;
}

@Controller('things')
class ThingsController {
  @Get()
  list(@Query() query: ThingQuery): object {
    return { limit: query.limit ?? null };
  }

  @Post()
  create(@Body() body: ThingBody, @Req() request: FastifyRequest): object {
    return { body, canonical: request.canonicalBody(), bytes: request.rawBody?.length };
  }

  @Get('fail/:how')
  fail(@Param('how') how: string): never {
    if (how === 'domain') {
      throw new DomainError(illegalTransition, 'No step from pending to shipped.', {
        from: 'pending',
        to: 'shipped',
        allowed: ['confirmed'],
      });
    }
    if (how === 'database') throw Object.assign(new Error('deadlock detected'), { code: '40P01' });
    throw new Error('secret: password=hunter2', { cause: new Error('the cause') });
  }

  @Get(':id')
  read(@Param('id', UuidParamPipe) id: string): object {
    return { id };
  }

  @Patch(':id')
  patch(@Param('id', UuidParamPipe) _id: string, @Body() body: unknown): object {
    return { body };
  }

  @Delete(':id')
  remove(@Param('id', UuidParamPipe) id: string): object {
    return { id };
  }
}

@Module({
  controllers: [ThingsController, ProblemPagesController],
  providers: [{ provide: APP_FILTER, useClass: ProblemFilter }],
})
class ThingsModule {}

const goOn = (_request: unknown, _reply: unknown, done: () => void) => done();
const goOnWithPayload = (_request: unknown, _reply: unknown, _payload: unknown, done: () => void) => done();
const NO_HOOKS: Omit<HandedHooks, keyof ReturnType<typeof prepareServer>> = {
  beginObservation: goOn,
  restoreContext: goOn,
  closeWhenDraining: goOnWithPayload,
  reportRequest: goOn,
};

let app: NestFastifyApplication;
let base: string;

beforeAll(async () => {
  jest.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
  const adapter = new FastifyAdapter({
    ...serverOptions,
    requestTimeout: 300,
    http: { headersTimeout: 200, requestTimeout: 300, connectionsCheckingInterval: 100 },
  });
  const fastify = adapter.getInstance();
  const hooks = { ...NO_HOOKS, ...prepareServer(fastify, { maxConnections: 100, bodyMemory: 8_388_608 }) };
  const provideHooks = await registerRequestPath(fastify, hooks, { corsOrigins: ['https://shop.example'] });
  provideHooks({
    countByAddress: goOn,
    identifyCaller: goOn,
    expectSignature: goOn,
    endReading: goOnWithPayload,
    endBrokenReading: goOn,
  });
  app = await NestFactory.create<NestFastifyApplication>(ThingsModule, adapter, { bodyParser: false, logger: false });
  app.use('/things/blocked', () => {
    throw new DomainError(forbidden, 'Not through here.');
  });
  app.useGlobalPipes(createValidationPipe());
  await app.listen(0, '127.0.0.1');
  base = await app.getUrl();
});

afterAll(async () => {
  await app.close();
  jest.restoreAllMocks();
});

interface Answer {
  status: number;
  headers: Headers;
  body: Record<string, unknown> & { errors?: Record<string, unknown>[] };
}

async function send(path: string, init?: RequestInit): Promise<Answer> {
  const response = await fetch(base + path, init);
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] };
}

function post(
  body: string | Uint8Array,
  headers: Record<string, string> = { 'content-type': 'application/json' },
): Promise<Answer> {
  return send('/things', { method: 'POST', body: Uint8Array.from(Buffer.from(body)), headers });
}

/** Sends raw text on a socket and reads until the server closes. */
function sendRaw(text: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(new URL(base).port), '127.0.0.1', () => socket.write(text));
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
    socket.setTimeout(60_000, () => socket.destroy());
  });
}

describe('errors of handlers', () => {
  it('become the problem of their code, with its members', async () => {
    const { status, headers, body } = await send('/things/fail/domain?x=1');
    expect(status).toBe(409);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body).toEqual({
      type: '/problems/illegal-transition',
      title: 'Illegal transition',
      status: 409,
      detail: 'No step from pending to shipped.',
      instance: '/things/fail/domain',
      code: 'illegal-transition',
      requestId: headers.get('x-request-id'),
      from: 'pending',
      to: 'shipped',
      allowed: ['confirmed'],
    });
  });

  it('that nobody foresaw tell the request id and nothing else, and are logged with their cause', async () => {
    const { status, body } = await send('/things/fail/bug', { headers: { 'x-request-id': 'req-1' } });
    expect(status).toBe(500);
    expect(body).toMatchObject({ code: 'internal-error', requestId: 'req-1' });
    expect(JSON.stringify(body)).not.toMatch(/hunter2|cause/);
    expect(Logger.prototype.error).toHaveBeenCalledWith(
      expect.stringMatching(/req-1.*hunter2.*caused by.*the cause/),
      expect.stringContaining('problem-answers.spec'),
    );
  });

  it('of the database that may pass are 503 with Retry-After', async () => {
    const { status, headers, body } = await send('/things/fail/database');
    expect(status).toBe(503);
    expect(headers.get('retry-after')).toBe('2');
    expect(body['code']).toBe('unavailable');
  });
});

describe('errors of Nest middleware', () => {
  it('become problems too', async () => {
    const { status, headers, body } = await send('/things/blocked?y=1', { headers: { 'x-request-id': 'req-2' } });
    expect(status).toBe(403);
    expect(headers.get('x-request-id')).toBe('req-2');
    expect(body).toMatchObject({ code: 'forbidden', instance: '/things/blocked', requestId: 'req-2' });
  });
});

describe('addresses', () => {
  it('that lead nowhere are not-found', async () => {
    expect((await send('/nowhere')).body).toMatchObject({ status: 404, code: 'not-found', instance: '/nowhere' });
    expect((await send('/things/not-a-uuid')).body).toMatchObject({ status: 404, code: 'not-found' });
    expect((await send(`/things/${'x'.repeat(300)}`)).body).toMatchObject({ status: 404, code: 'not-found' });
  });

  it('stay not-found for a body that nobody can read there', async () => {
    const answer = await send('/nowhere', { method: 'POST', body: 'x', headers: { 'content-type': 'text/plain' } });
    expect(answer.body).toMatchObject({ status: 404, code: 'not-found' });
  });

  it('with another method are method-not-allowed and say which are', async () => {
    const put = await send('/things', { method: 'PUT' });
    expect(put.body).toMatchObject({ status: 405, code: 'method-not-allowed' });
    expect(put.headers.get('allow')).toBe('GET, HEAD, POST');
    const post = await send('/things/0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11', { method: 'POST' });
    expect(post.headers.get('allow')).toBe('DELETE, GET, HEAD, PATCH');
    expect((await send('/things?limit=1', { method: 'DELETE' })).status).toBe(405);
  });

  it('that are no URL are 400', async () => {
    const { status, headers, body } = await send('/things/%E0%A4%A');
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: 'invalid-parameter' });
    expect(headers.get('x-request-id')).toBe(body['requestId']);
  });

  it.each([
    '/things/%00',
    '/things?limit=%00',
    '/things?%00=1',
    '/things?__proto__=1',
    '/things?limit=%ff',
    '//',
    '/?',
  ])('%s is a 4xx', async (path) => {
    const { status, headers } = await send(path);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(headers.get('content-type')).toBe('application/problem+json');
  });
});

describe('query parameters', () => {
  it('are read strictly', async () => {
    expect((await send('/things?limit=7')).body).toEqual({ limit: 7 });
    for (const limit of ['', '0', '201', '1.5', '0x10', '1e1', ' 5', 'x', '1&limit=2']) {
      const { status, body } = await send(`/things?limit=${limit}`);
      expect([limit, status, body['code']]).toEqual([limit, 400, 'invalid-parameter']);
      expect(body.errors?.[0]).toMatchObject({ parameter: 'limit' });
    }
  });

  it('that are unknown are refused by name', async () => {
    const { body } = await send('/things?stauts=pending');
    expect(body).toMatchObject({ status: 400, code: 'unknown-parameter', errors: [{ parameter: 'stauts' }] });
  });
});

describe('bodies', () => {
  it('keep their canonical form and their bytes, whatever order they come in', async () => {
    const text = '{ "name":"\\u0061", "metadata":{"b":1.0,"a":[2,1]} }';
    const { status, body } = await post(text);
    expect(status).toBe(201);
    expect(body).toEqual({
      body: { name: 'a', metadata: { b: 1, a: [2, 1] } },
      canonical: '{"metadata":{"a":[2,1],"b":1},"name":"a"}',
      bytes: text.length,
    });
  });

  it('are taken as merge patch too, and with the charset that JSON has', async () => {
    for (const type of [
      'application/merge-patch+json',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
    ]) {
      expect((await post('{"name":"a"}', { 'content-type': type })).status).toBe(201);
    }
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=latin1',
    'application/json; charset=utf-16',
    'application/jsonx',
    'application/problem+json',
    'nonsense',
    '*/*',
    'application/json; charset=utf-8; charset=latin1',
  ])('of type %s are 415', async (type) => {
    expect((await post('{"name":"a"}', { 'content-type': type })).body).toMatchObject({
      status: 415,
      code: 'unsupported-media-type',
    });
  });

  it('without a type or with a content encoding are 415', async () => {
    const buffer = Buffer.from('{"name":"a"}');
    expect((await post(buffer, {})).status).toBe(415);
    expect((await post(buffer, { 'content-type': 'application/json', 'content-encoding': 'gzip' })).status).toBe(415);
  });

  it.each(['application/json; charset=utf8', 'application/json;charset="UTF-8"'])(
    'of type %s are read',
    async (type) => {
      expect((await post('{"name":"a"}', { 'content-type': type })).status).toBe(201);
    },
  );

  it.each(['application/json', 'application/x-www-form-urlencoded', 'nonsense'])(
    'that are none mean the same under type %s as without one',
    async (type) => {
      for (const headers of [{ 'content-type': type }, {}] as Record<string, string>[]) {
        const { body } = await post('', headers);
        expect(body).toMatchObject({ status: 422, errors: [{ pointer: '' }] });
      }
    },
  );

  it('of a megabyte and more are 413', async () => {
    expect((await post(`{"name":"${'x'.repeat(1_100_000)}"}`)).body).toMatchObject({
      status: 413,
      code: 'payload-too-large',
    });
  });

  it.each([
    [' ', ''],
    ['{"name":"a","name":"a"}', '/name'],
    ['{"name":"a","n\\u0061me":"b"}', '/name'],
    ['{"name":"\\u0000"}', '/name'],
    ['{"name":"\\ud800"}', '/name'],
    ['{"metadata":{"n":9007199254740993}}', '/metadata/n'],
    ['['.repeat(1_000_000), '/0'.repeat(32)],
    [Buffer.from([0x22, 0xff, 0x22]), undefined],
    [Buffer.from('\ufeff{"name":"a"}'), ''],
  ])('that are not strict JSON are malformed-body with a pointer (%#)', async (text, pointer) => {
    const { status, body } = await post(text);
    expect(status).toBe(400);
    expect(body['code']).toBe('malformed-body');
    expect(body.errors?.[0]?.['pointer']).toBe(pointer);
  });

  it.each(['null', '[]', '"x"', '1', '[{"name":"a"}]'])(
    'that are %s and not an object fail validation',
    async (text) => {
      const { body } = await post(text);
      expect(body).toMatchObject({ status: 422, code: 'validation-failed', errors: [{ pointer: '' }] });
    },
  );

  it('that are missing fail validation', async () => {
    expect((await send('/things', { method: 'POST' })).body).toMatchObject({ status: 422, errors: [{ pointer: '' }] });
  });

  it('on a GET or DELETE are never a 500', async () => {
    const id = '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11';
    const answers = await Promise.all([
      send(`/things/${id}`, { method: 'DELETE' }),
      send(`/things/${id}`, { method: 'DELETE', headers: { 'content-type': 'application/json' } }),
      send(`/things/${id}`, { method: 'DELETE', body: '{', headers: { 'content-type': 'application/json' } }),
      send(`/things/${id}`, { method: 'DELETE', body: Uint8Array.from([120]) }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 415]);
    const get = await sendRaw(
      `GET /things/${id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx`,
    );
    expect(get).toMatch(/^HTTP\/1.1 200/);
  });

  it('keep odd names in metadata and pollute nothing', async () => {
    const text =
      '{"name":"a","metadata":{"__proto__":{"x":1},"constructor":{"prototype":{"y":2}},"then":1,"1":[{"constructor":"c"}]}}';
    const { status, body } = await post(text);
    expect(status).toBe(201);
    expect(body['canonical']).toBe(
      '{"metadata":{"1":[{"constructor":"c"}],"__proto__":{"x":1},"constructor":{"prototype":{"y":2}},"then":1},"name":"a"}',
    );
    expect(JSON.stringify(body['body'])).toContain('"__proto__":{"x":1}');
    expect(({} as Record<string, unknown>)['x']).toBeUndefined();
  });
});

describe('what never becomes a request', () => {
  it('is answered with problems too', async () => {
    const malformed = await sendRaw('FOO BAR BAZ\r\n\r\n');
    expect(malformed).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/);
    expect(malformed).toContain('"code":"malformed-body"');
    expect(malformed).toContain('content-type: application/problem+json');
    const large = await sendRaw(`GET /things HTTP/1.1\r\nHost: x\r\nX-Big: ${'x'.repeat(20_000)}\r\n\r\n`);
    expect(large).toMatch(/^HTTP\/1.1 431 .*"code":"headers-too-large"/s);
    const slow = await sendRaw(
      'POST /things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    );
    expect(slow).toMatch(/^HTTP\/1.1 408 .*"code":"request-timeout"/s);
    const smuggled = await sendRaw(
      'POST /things HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    );
    expect(smuggled).toMatch(/^HTTP\/1.1 400 /);
    const noHost = await sendRaw('GET /things HTTP/1.1\r\nConnection: close\r\n\r\n');
    expect(noHost).toMatch(/^HTTP\/1.1 400 /);
  });
});

describe('request ids', () => {
  it('are taken over when they are safe and made otherwise', async () => {
    const idOf = async (id: string) =>
      (await fetch(`${base}/things`, { headers: { 'x-request-id': id } })).headers.get('x-request-id');
    expect(await idOf('abc-1')).toBe('abc-1');
    expect(await idOf('x'.repeat(128))).toBe('x'.repeat(128));
    for (const id of ['x'.repeat(129), 'a b', 'é', '']) expect(await idOf(id)).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('problem pages', () => {
  it('are self-contained HTML under a strict policy', async () => {
    const index = await fetch(`${base}/problems`);
    expect(index.status).toBe(200);
    const page = await fetch(`${base}/problems/illegal-transition`);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const html = await page.text();
    expect(html).toContain('Illegal transition');
    expect(html).not.toMatch(/<script|src=|@import|url\(/);
  });

  it('exist for codes only', async () => {
    expect((await send('/problems/nonsense')).status).toBe(404);
    expect((await send('/problems/constructor')).status).toBe(404);
  });
});
