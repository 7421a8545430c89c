import { describe, expect, it } from '@jest/globals';
import type { OpenAPIObject } from '@nestjs/swagger';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { ApiClient } from '../support/api-client.js';
import { DocumentCheck, type Exchange, UndocumentedAnswer } from '../support/document-check.js';
import { examplesOf } from '../support/document-examples.js';

const document = JSON.parse(readFileSync(join(import.meta.dirname, '../../openapi.json'), 'utf8')) as OpenAPIObject;
const check = new DocumentCheck(document);
const [order] = examplesOf(document)
  .filter(({ pointer }) => pointer.includes('/post/responses/201/') && pointer.startsWith('#/paths/~1v1~1orders/'))
  .flatMap(({ values }) => values.map(({ value }) => value as Record<string, unknown>));

const HEADERS = {
  'content-type': 'application/json',
  'cache-control': 'no-store',
  'x-request-id': 'r',
  etag: '"1"',
  location: '/v1/orders/x',
};

function placed(changes: Partial<Exchange>, body: object = order ?? {}): Exchange {
  return {
    method: 'POST',
    path: '/v1/orders',
    status: 201,
    headers: new Headers(HEADERS),
    text: JSON.stringify(body),
    ...changes,
  };
}

describe('the check of every answer against the document', () => {
  it('lets pass what is documented', () => {
    expect(() => check.check(placed({}))).not.toThrow();
  });

  it.each<[string, Exchange, string]>([
    ['a status that is not documented', placed({ status: 200 }), '200 is not among its answers'],
    ['an operation that is not documented', placed({ method: 'PUT' }), 'there is no such operation'],
    ['a member that is missing', placed({}, { ...order, total: undefined }), "must have required property 'total'"],
    ['a member that is not documented', placed({}, { ...order, secret: 1 }), 'must NOT have additional properties'],
    ['a member of another type', placed({}, { ...order, total: '10' }), '/total must be integer'],
    ['a media type that is not documented', placed({ headers: without('content-type') }), 'its media type is missing'],
    ['a header that is missing', placed({ headers: without('etag') }), 'it lacks the header ETag'],
    [
      'a request that it should have refused',
      placed({ requestBody: { channel: 'web' } }),
      'it took a body that is not as documented',
    ],
    [
      'a problem whose code is not documented',
      placed(
        { status: 409, headers: new Headers({ 'content-type': 'application/problem+json', 'x-request-id': 'r' }) },
        { code: 'illegal-transition', status: 409 },
      ),
      'must be equal to constant',
    ],
  ])('refuses %s', (_name, exchange, sentence) => {
    expect(() => check.check(exchange)).toThrow(UndocumentedAnswer);
    expect(() => check.check(exchange)).toThrow(sentence);
  });

  it('is made of every answer that a test client gets', async () => {
    const server = createServer((request, response) => {
      const isDocument = request.url === '/openapi.json';
      response.writeHead(isDocument ? 200 : 201, HEADERS).end(JSON.stringify(isDocument ? document : { id: 1 }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const client = new ApiClient(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
    try {
      await expect(client.post('/v1/orders', order)).rejects.toThrow(UndocumentedAnswer);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

function without(name: string): Headers {
  const headers = new Headers(HEADERS);
  headers.delete(name);
  return headers;
}
