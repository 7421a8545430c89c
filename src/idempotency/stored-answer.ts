import { isReadable } from 'node:stream';
import { StreamableFile } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { type Problem, problemBytes } from '../problems/index.js';
import { writeJson } from '../http/index.js';
import type { IdempotentOptions } from './idempotent-options.js';

/** An answer as the key keeps it. */
export interface StoredAnswer {
  status: number;
  /** Lower-case names, of those in `KEPT_HEADERS` that it has. */
  headers: Record<string, string>;
  /** The bytes as they are sent; empty when there is no body. */
  body: Buffer;
}

/** What a replay repeats. Everything else (cookies, dates, request ids, limits) belongs to the request at hand. */
const KEPT_HEADERS = ['content-type', 'location', 'etag'] as const;
const JSON_TYPE = 'application/json; charset=utf-8';

/** Takes down what a handler answered: its result, and the status and headers that it left on the reply. */
export function answerOf(reply: FastifyReply, result: unknown): StoredAnswer {
  const { body, type } = bytesOf(result);
  const headers = keptHeaders(reply);
  if (body.length === 0) delete headers['content-type'];
  else headers['content-type'] ??= type;
  return { status: reply.statusCode, headers, body };
}

export function answerOfProblem(problem: Problem): StoredAnswer {
  return {
    status: problem.status,
    headers: { 'content-type': problem.headers['content-type'] ?? '' },
    body: problemBytes(problem),
  };
}

/** Puts an answer on the reply. Returns the payload: bytes, since Fastify would touch text, or nothing. */
export function applyAnswer(reply: FastifyReply, { status, headers, body }: StoredAnswer): Buffer | undefined {
  reply.code(status);
  restoreHeaders(reply, headers);
  return body.length === 0 ? undefined : body;
}

/** The headers of `KEPT_HEADERS` that a reply has by now. */
export function keptHeaders(reply: FastifyReply): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of KEPT_HEADERS) {
    const value = reply.getHeader(name);
    if (value !== undefined) headers[name] = String(value);
  }
  return headers;
}

/** Makes a reply have exactly these of `KEPT_HEADERS`. */
export function restoreHeaders(reply: FastifyReply, headers: Readonly<Record<string, string>>): void {
  for (const name of KEPT_HEADERS) {
    const value = headers[name];
    if (value === undefined) reply.removeHeader(name);
    else reply.header(name, value);
  }
}

/** What the answer shows, as erasure looks for it; null when it names nothing. */
export function resourceOf(options: IdempotentOptions, result: unknown): string | null {
  if (options.resource === undefined || typeof result !== 'object' || result === null) return null;
  const id = 'id' in result ? result.id : undefined;
  return typeof id === 'string' || typeof id === 'number' ? `${options.resource}/${id}` : null;
}

/** The same rules as Nest's and Fastify's, which never get to see the result itself. */
export function bytesOf(result: unknown): { body: Buffer; type: string } {
  if (result === undefined || result === null) return { body: Buffer.alloc(0), type: '' };
  if (typeof result === 'string') return { body: Buffer.from(result), type: 'text/plain; charset=utf-8' };
  if (result instanceof Uint8Array) return { body: Buffer.from(result), type: 'application/octet-stream' };
  if (result instanceof StreamableFile || isReadable(result as NodeJS.ReadableStream)) {
    throw new TypeError('A handler with @Idempotent() answered with a stream, which can be sent only once');
  }
  return { body: Buffer.from(writeJson(result)), type: JSON_TYPE };
}
