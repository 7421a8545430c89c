import type { IncomingMessage, ServerResponse } from 'node:http';

import { Logger } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { errorReport, type ErrorReport } from '../common/index.js';
import { problemBytes, toProblem } from '../problems/index.js';
import { noteProblem } from './request-context.js';
import { requestIdOf } from './request-id.js';

const logger = new Logger('Problem');

/** Answers a request with the problem of an error. Ends the connection when the answer had begun already. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply, typeBase?: string): void {
  const instance = pathOf(request.raw.url);
  const problem = toProblem(error, { instance, requestId: request.id, typeBase });
  noteProblem(problem.body.code);
  logServerFault(error, problem.status, `${request.method} ${instance}`, request.id);
  if (reply.sent || reply.raw.headersSent) {
    reply.raw.destroy();
    return;
  }
  // Headers of the answer that was being made belong to that answer, not to the problem. That the connection closes is for
  // discard-body.ts and for a process that ends to say: Fastify closes it under a client that is still sending.
  for (const name of ['connection', 'etag', 'location', 'content-length', 'content-encoding', 'transfer-encoding']) {
    reply.removeHeader(name);
  }
  reply
    .code(problem.status)
    .headers({ ...problem.headers, 'x-request-id': request.id })
    .send(problemBytes(problem));
}

/** The same for Nest middleware, whose errors come with Node's own request and response. */
export function sendRawProblem(
  error: unknown,
  request: IncomingMessage,
  response: ServerResponse,
  typeBase?: string,
): void {
  const requestId = requestIdOf(request);
  const instance = pathOf(request.url);
  const problem = toProblem(error, { instance, requestId, typeBase });
  logServerFault(error, problem.status, `${request.method ?? ''} ${instance}`, requestId);
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = problemBytes(problem);
  response.writeHead(problem.status, { ...problem.headers, 'content-length': body.length, 'x-request-id': requestId });
  response.end(body);
}

/** Logs an error that is answered with a 5xx, with its causes; others are the caller's affair. */
export function logServerFault(error: unknown, status: number, operation: string, requestId: string): void {
  if (status < 500) return;
  const message = `${status} ${operation} request ${requestId}: ${describeError(error)}`;
  // Of a 503 many requests tell at once, all the same; their stacks add nothing.
  if (status === 503) logger.warn(message);
  else logger.error(message, stackOf(error));
}

function pathOf(url: string | undefined): string {
  return (url ?? '').replace(/[?#].*$/s, '');
}

const MAX_CAUSES = 5;

/** Messages and codes of an error and its causes. */
function describeError(error: unknown): string {
  return causesOf(error)
    .map(({ name, code, message }) => `${name}${code === undefined ? '' : ` [${code}]`}: ${message}`)
    .join('; caused by ');
}

function stackOf(error: unknown): string {
  return causesOf(error)
    .map(({ stack }) => stack)
    .join('\ncaused by ');
}

function causesOf(error: unknown): ErrorReport[] {
  const causes: ErrorReport[] = [];
  let current = error;
  while (current !== undefined && current !== null && causes.length < MAX_CAUSES) {
    causes.push(errorReport(current));
    current = (current as { cause?: unknown }).cause;
  }
  return causes;
}
