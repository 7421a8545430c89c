import type { FastifyInstance, FastifyRequest } from 'fastify';

import { canonicalJson } from '../common/index.js';
import { DomainError, unsupportedMediaType } from '../problems/index.js';
import { parseJsonBody } from './json-body.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body's bytes as they arrived; undefined when the request had none. Signatures of webhooks are over these. */
    rawBody: Buffer | undefined;
    /**
     * The body in RFC 8785 form, '' when the request had none. Ask for it before a handler has the body, which it might
     * change.
     */
    canonicalBody(): string;
  }
}

const MEDIA_TYPES = ['application/json', 'application/merge-patch+json'];

/**
 * Makes strict JSON the only thing that this server reads: removes Fastify's parsers and adds one for `application/json`
 * and `application/merge-patch+json`. Everything else is 415. Nest must be created with `bodyParser: false`, or it adds
 * its own again.
 */
export function readStrictJson(fastify: FastifyInstance): void {
  fastify.removeAllContentTypeParsers();
  fastify.decorateRequest('rawBody', undefined);
  fastify.decorateRequest('canonicalBody', function canonicalBody(this: FastifyRequest): string {
    return values.has(this) ? canonicalJson(values.get(this)) : '';
  });
  fastify.addContentTypeParser(MEDIA_TYPES, { parseAs: 'buffer' }, (request, bytes, done) => {
    try {
      done(null, readBody(request, bytes as Buffer));
    } catch (error) {
      done(error as Error);
    }
  });
}

/** What the bodies of requests say, as they were read. */
const values = new WeakMap<FastifyRequest, unknown>();

function readBody(request: FastifyRequest, bytes: Buffer): unknown {
  refuseForeignEncoding(request);
  // Many clients put a content type on every request; on a DELETE without a body it means nothing.
  if (bytes.length === 0 && request.method === 'DELETE') return undefined;
  const { value } = parseJsonBody(bytes);
  request.rawBody = bytes;
  values.set(request, value);
  return value;
}

const CHARSET = /;\s*charset\s*=\s*("?)([^";\s]*)\1/gi;

function refuseForeignEncoding({ headers }: FastifyRequest): void {
  for (const [, , charset] of (headers['content-type'] ?? '').matchAll(CHARSET)) {
    if (charset?.toLowerCase() !== 'utf-8') {
      throw new DomainError(unsupportedMediaType, 'JSON is read in UTF-8 only.');
    }
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new DomainError(unsupportedMediaType, 'Send the body without a content encoding.');
  }
}
