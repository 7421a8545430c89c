import { randomUUID } from 'node:crypto';

import type { FastifyReply, FastifyRequest } from 'fastify';

const VISIBLE_ASCII = /^[\x21-\x7e]{1,128}$/;

/**
 * The id of a request, for Fastify's `genReqId`: the caller's X-Request-Id when it is 1 to 128 visible ASCII characters
 * (anything else could break a log line or a header), a new uuid otherwise.
 */
export function requestIdOf(request: {
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && VISIBLE_ASCII.test(given) ? given : randomUUID();
}

/** Every answer carries the request's id as X-Request-Id. */
export function tellRequestId(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  reply.header('x-request-id', request.id);
  done();
}
