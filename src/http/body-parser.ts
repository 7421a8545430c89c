import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { canonicalJson } from '../common/index.js';
import { DomainError, unsupportedMediaType } from '../problems/index.js';
import { askBeforeBodies, type BodyReader } from './body-reader.js';
import { parseJsonBody } from './json-body.js';
import { signedBodyOf } from './signed-body.js';

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
 *
 * @returns hooks that come before the parser
 */
export function readStrictJson(fastify: FastifyInstance, bodies: BodyReader) {
  fastify.removeAllContentTypeParsers();
  fastify.decorateRequest('rawBody', undefined);
  fastify.decorateRequest('canonicalBody', function canonicalBody(this: FastifyRequest): string {
    return values.has(this) ? canonicalJson(values.get(this)) : '';
  });
  const replies = new WeakMap<FastifyRequest, FastifyReply>();
  fastify.addContentTypeParser(MEDIA_TYPES, async (request: FastifyRequest) => {
    refuseForeignEncoding(request);
    const reply = replies.get(request);
    if (!reply) throw new Error('The hook expectBody has not run');
    return readBody(request, await bodies.read(request, reply));
  });
  askBeforeBodies(fastify.server);
  return {
    /** @throws DomainError `payload-too-large` before anything of the body is read */
    refuseLargeBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
      bodies.refuseTooLarge(request);
      done();
    },
    expectBody(request: FastifyRequest, reply: FastifyReply, _payload: unknown, done: (error: null) => void): void {
      forgetTypeOfNothing(request);
      replies.set(request, reply);
      done(null);
    },
  };
}

/** What the bodies of requests say, as they were read. */
const values = new WeakMap<FastifyRequest, unknown>();

/** Many clients put a content type on every request; without a body it means nothing. */
function forgetTypeOfNothing({ raw: { headers } }: FastifyRequest): void {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
  if (encoding === undefined && length === '0') delete headers['content-type'];
}

function readBody(request: FastifyRequest, bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  request.rawBody = bytes;
  if (signedBodyOf(request)) return undefined;
  const { value } = parseJsonBody(bytes);
  values.set(request, value);
  return value;
}

/** The second is what many clients call it. */
const UTF8_NAMES = new Set(['utf-8', 'utf8']);
const CHARSET = /;\s*charset\s*=\s*("?)([^";\s]*)\1/gi;

function refuseForeignEncoding({ headers }: FastifyRequest): void {
  for (const [, , charset] of (headers['content-type'] ?? '').matchAll(CHARSET)) {
    if (!UTF8_NAMES.has(charset?.toLowerCase() ?? '')) {
      throw new DomainError(unsupportedMediaType, 'JSON is read in UTF-8 only.');
    }
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new DomainError(unsupportedMediaType, 'Send the body without a content encoding.');
  }
}
