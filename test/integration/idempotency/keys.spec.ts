import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { RequestMethod } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { idempotentOptions } from '../../../src/idempotency/idempotent-options.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody, type ProblemAnswer } from '../../support/builders.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp();
});
afterAll(() => service.close());

interface RawAnswer {
  status: number;
  link: string;
  problem: ProblemAnswer;
}

/** `fetch` refuses or merges many headers; Node's own client sends what it is told. */
function place(keys: string | string[] | undefined): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${service.baseUrl}/v1/orders`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.as('operator').apiKey}`, 'content-type': 'application/json' },
    });
    if (keys !== undefined) request.setHeader('idempotency-key', keys);
    request.once('error', reject);
    request.once('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const problem = JSON.parse(Buffer.concat(chunks).toString()) as ProblemAnswer;
        resolve({ status: response.statusCode ?? 0, link: String(response.headers.link), problem });
      });
    });
    request.end(JSON.stringify(orderBody()));
  });
}

describe('an Idempotency-Key', () => {
  it('is required to place an order, and the problem leads to the documentation', async () => {
    const { status, link, problem } = await place(undefined);
    expect(status).toBe(400);
    expect(problem.code).toBe('idempotency-key-missing');
    expect(link).toBe('</docs/idempotency>; rel="help"; type="text/html"');
  });

  it.each<[string, string | string[]]>([
    ['empty', ''],
    ['longer than 255 characters', 'x'.repeat(256)],
    ['with a comma', 'a,b'],
    ['with a tab', 'a\tb'],
    ['beyond ASCII', 'schl\u00fcssel'],
    ['sent twice', ['a', 'b']],
    ['sent twice with the same value', ['a', 'a']],
    ['sent twice, once empty', ['', 'a']],
  ])('that is %s is refused, and the problem leads to the documentation', async (_what, keys) => {
    const { status, link, problem } = await place(keys);
    expect(status).toBe(400);
    expect(problem.code).toBe('idempotency-key-invalid');
    expect(link).toContain('/docs/idempotency');
  });

  it('means the same in quotes and bare', async () => {
    const body = orderBody();
    const bare = await service.as('operator').post('/v1/orders', body, { 'idempotency-key': 'both-forms' });
    const quoted = await service.as('operator').post('/v1/orders', body, { 'idempotency-key': '"both-forms"' });
    expect(quoted.text).toBe(bare.text);
    expect(quoted.headers.get('idempotency-replayed')).toBe('true');
  });

  it('is looked at after the body was read: a malformed one is 400 whatever the key', async () => {
    const headers = { 'idempotency-key': 'malformed' };
    const broken = await service.as('operator').send<ProblemAnswer>('POST', '/v1/orders', { body: '{', headers });
    expect(broken.body.code).toBe('malformed-body');
    expect((await service.as('operator').post('/v1/orders', orderBody(), headers)).status).toBe(201);
  });
});

/** POST routes that carry no key, with the reason. */
const REVIEWED_EXCEPTIONS: Readonly<Record<string, string>> = {
  'ApiKeysController.create': 'the answer holds a secret, which must never be stored',
  'VerificationController.start': 'it only reads, and while one runs a second call names it',
  'PaymentWebhooksController.receive': 'providers send no key; each of their events has an id and takes effect once',
};

describe('every POST route', () => {
  it('is idempotent, or a reviewed exception', () => {
    const discovery = service.app.get(DiscoveryService, { strict: false });
    const scanner = service.app.get(MetadataScanner, { strict: false });
    const posts = discovery.getControllers().flatMap(({ metatype }) => {
      const prototype = (metatype?.prototype ?? {}) as Record<string, object>;
      return scanner
        .getAllMethodNames(prototype)
        .map((name) => ({ name: `${metatype?.name}.${name}`, handler: prototype[name] ?? {} }))
        .filter(({ handler }) => Reflect.getMetadata(METHOD_METADATA, handler) === RequestMethod.POST);
    });
    expect(posts.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['OrdersController.place', 'OrdersController.transition']),
    );
    const open = posts.filter(({ name, handler }) => !idempotentOptions(handler) && !(name in REVIEWED_EXCEPTIONS));
    expect(open.map(({ name }) => name)).toEqual([]);
  });
});

interface OpenApi {
  components: { responses: Record<string, Response> };
  paths: Record<string, Record<string, Operation>>;
  'x-idempotency': unknown;
}

interface Operation {
  parameters: { name: string; required: boolean; description: string }[];
  responses: Record<string, Response>;
}

interface Response {
  /** To one of `components`, where several operations have the same. */
  $ref?: string;
  headers?: object;
  content?: Record<string, { schema: unknown }>;
}

describe('the policy', () => {
  it('is published in the OpenAPI document, at each operation that takes a key', async () => {
    const { body } = await service.as('viewer').get<OpenApi>('/openapi.json');
    const keyOf = (operation: Operation | undefined) =>
      operation?.parameters.find(({ name }) => name === 'Idempotency-Key');
    const answer = (operation: Operation | undefined, status: string) => {
      const found = operation?.responses[status];
      return JSON.stringify(body.components.responses[found?.$ref?.split('/').at(-1) ?? ''] ?? found);
    };
    const place = body.paths['/v1/orders']?.post;
    const patch = body.paths['/v1/orders/{id}']?.patch;
    expect(keyOf(place)).toMatchObject({ required: true, description: expect.stringContaining('for 24 hours') });
    expect(keyOf(patch)).toMatchObject({ required: false });
    expect(keyOf(body.paths['/v1/orders']?.get)).toBeUndefined();
    for (const [status, code] of [
      ['400', 'idempotency-key-missing'],
      ['400', 'malformed-body'],
      ['409', 'idempotency-key-in-flight'],
      ['410', 'answer-erased'],
      ['422', 'idempotency-key-reused'],
    ] as const) {
      expect(answer(place, status)).toContain(`"${code}"`);
    }
    expect(answer(patch, '400')).not.toContain('idempotency-key-missing');
    expect(Object.keys(place?.responses['201']?.headers ?? {})).toEqual(
      expect.arrayContaining(['ETag', 'Idempotency-Replayed', 'Idempotency-Created-At']),
    );
    expect(body['x-idempotency']).toEqual({ ttlSeconds: 86_400, documentation: '/docs/idempotency' });
  });

  it('has a page that anyone can read, and the pages of the problems lead there', async () => {
    const page = await fetch(`${service.baseUrl}/docs/idempotency`);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(await page.text()).toContain('24 hours');
    const problem = await fetch(`${service.baseUrl}/problems/idempotency-key-missing`);
    expect(await problem.text()).toContain('href="../docs/idempotency"');
  });
});
