import type { FastifyInstance, FastifyRequest } from 'fastify';

import { canonicalJson } from '../common/index.js';
import { DomainError, unsupportedMediaType } from '../problems/index.js';
import { parseJsonBody } from './json-body.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body's bytes as they arrived; undefined when the request had none. Signatures of webhooks are over these. */
    rawBody: Buffer | undefined;
    /** The body in RFC 8785 form, '' when the request had none: what an idempotency fingerprint is made of. */
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
    return canonicalBodyOf(this);
  });
  fastify.addContentTypeParser(MEDIA_TYPES, { parseAs: 'buffer' }, (request, bytes, done) => {
    try {
      done(null, readBody(request, bytes as Buffer));
    } catch (error) {
      done(error as Error);
    }
  });
}

const canonicalBodies = new WeakMap<FastifyRequest, string>();

function readBody(request: FastifyRequest, bytes: Buffer): unknown {
  refuseForeignEncoding(request);
  // Many clients put a content type on every request; on a DELETE without a body it means nothing.
  if (bytes.length === 0 && request.method === 'DELETE') return undefined;
  const { value } = parseJsonBody(bytes);
  request.rawBody = bytes;
  // The fingerprint of a keyed request will ask for it: now the value is at hand as it was read.
  if (request.headers['idempotency-key'] !== undefined) canonicalBodies.set(request, canonicalJson(value));
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

/** Reads the bytes again rather than `request.body`, which pipes and handlers may have changed by now. */
function canonicalBodyOf(request: FastifyRequest): string {
  const known = canonicalBodies.get(request);
  if (known !== undefined) return known;
  const text = request.rawBody === undefined ? '' : canonicalJson(parseJsonBody(request.rawBody).value);
  canonicalBodies.set(request, text);
  return text;
}
