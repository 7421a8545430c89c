import type { IncomingMessage, ServerResponse } from 'node:http';

import { Catch, Inject, Injectable, Optional, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { sendProblem, sendRawProblem } from './send-problem.js';

/** Optional provider: the absolute base of problem types, without a slash at its end. */
export const PROBLEM_TYPE_BASE = Symbol('PROBLEM_TYPE_BASE');

/**
 * Turns every error of the service into a problem, as APP_FILTER. Nest brings it unknown routes, hooks, the body parser
 * and middleware too; what happens before Nest is in server-options.ts.
 */
@Catch()
@Injectable()
export class ProblemFilter implements ExceptionFilter {
  constructor(@Optional() @Inject(PROBLEM_TYPE_BASE) private readonly typeBase?: string) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<FastifyRequest | IncomingMessage>();
    const response = host.switchToHttp().getResponse<FastifyReply | ServerResponse>();
    if ('raw' in request && 'raw' in response) sendProblem(error, request, response, this.typeBase);
    else sendRawProblem(error, request as IncomingMessage, response as ServerResponse, this.typeBase);
  }
}
