import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { readStrictJson } from './body-parser.js';
import { BodyReader } from './body-reader.js';
import { discardBody, isDiscarding } from './discard-body.js';
import { writeJson } from './raw-json.js';
import { problemBytes, toProblem } from '../problems/index.js';
import { requestIdOf } from './request-id.js';
import { sendProblem } from './send-problem.js';

const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Fastify's options: limits (by default it waits for a slow request for ever), the request id, and answers to what never
 * becomes a request. Spread them into the adapter's options.
 */
export const serverOptions = {
  requestTimeout: REQUEST_TIMEOUT_MS,
  // Fastify sets the request timeout after Node has chosen 60 s for the headers, and Node swaps the two when the headers'
  // is the longer one: bodies would then have 60 s. It also looks for slow requests only this often.
  http: { headersTimeout: 10_000, requestTimeout: REQUEST_TIMEOUT_MS, connectionsCheckingInterval: 5_000 },
  // A customer's reference of 100 code points, percent-encoded with four bytes each: what can be placed can be addressed.
  routerOptions: { maxParamLength: 1200 },
  // A closing server still answers what it accepted; its own 503 would not be a problem document either.
  return503OnClosing: false,
  genReqId: requestIdOf,
  clientErrorHandler: answerClientError,
  frameworkErrors: answerFrameworkError,
};

export interface ServerLimits {
  /** Connections at once; more are closed as they come. */
  maxConnections: number;
  /** Bytes that bodies take together, from their first byte to the answer. */
  bodyMemory: number;
}

/**
 * Makes a server read strict JSON only, within its limits, and write `RawJson` as it is. Call it before any route is added;
 * what requests pass on their way is in request-path.ts.
 *
 * @returns hooks of the path that reading a body needs
 */
export function prepareServer(fastify: FastifyInstance, { maxConnections, bodyMemory }: ServerLimits) {
  fastify.server.maxConnections = maxConnections;
  fastify.setReplySerializer(writeJson);
  return { ...readStrictJson(fastify, new BodyReader(bodyMemory)), discardBody };
}

/** Errors of the router, before hooks and error handlers exist: a malformed URL, an overlong parameter. */
function answerFrameworkError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
  sendProblem(error, request, reply);
}

/** Errors of Node's HTTP parser: there is no request, only a socket. */
function answerClientError(error: Error & { code?: string }, socket: Socket & { _httpMessage?: ServerResponse }): void {
  // A reset connection has nobody to answer to, and after the headers of an answer a second one would be garbage.
  const { _httpMessage: current } = socket;
  if (error.code === 'ECONNRESET' || !socket.writable || current?.headersSent || isDiscarding(socket)) {
    socket.destroy();
    return;
  }
  const requestId = randomUUID();
  const problem = toProblem(error, { requestId });
  const body = problemBytes(problem);
  const headers = { ...problem.headers, 'content-length': body.length, 'x-request-id': requestId, connection: 'close' };
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.end(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]), () => socket.destroy());
}
