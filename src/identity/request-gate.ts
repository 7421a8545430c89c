import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ContextualRequest } from '../database/index.js';
import { Authenticator } from './authenticator.js';
import type { Credential } from './credential-cache.js';
import { GuardedRoutes } from './guarded-routes.js';
import { Unauthenticated } from './identity.errors.js';
import { KeyUseRecorder } from './key-use-recorder.js';
import { addressGroup, RateLimits } from './rate-limits.js';

export interface AuthenticatedRequest extends ContextualRequest {
  credential?: Credential;
}

type GateRequest = FastifyRequest & AuthenticatedRequest;

/**
 * Stands before everything else, the reading of the body included: counts requests by address, finds out who sends
 * them where a route needs that, and counts them by user. What is turned away here costs neither a parse nor, for
 * credentials that were seen lately, a query.
 */
@Injectable()
export class RequestGate implements OnModuleInit {
  constructor(
    private readonly adapter: HttpAdapterHost,
    private readonly routes: GuardedRoutes,
    private readonly authenticator: Authenticator,
    private readonly limits: RateLimits,
    private readonly uses: KeyUseRecorder,
  ) {}

  onModuleInit(): void {
    const fastify = this.adapter.httpAdapter.getInstance<FastifyInstance>();
    fastify.addHook('onRequest', (request, reply) => this.admit(request as GateRequest, reply));
  }

  /** Leaves the caller's credential and principal on the request. */
  async authenticate(request: GateRequest): Promise<void> {
    const [, text] = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (text === undefined) throw new Unauthenticated();
    const address = addressGroup(request.ip);
    request.credential = await this.authenticator.identify(text, { address, requestId: request.id });
    request.principal = request.credential.principal;
    this.uses.note(request.credential);
  }

  private async admit(request: GateRequest, reply: FastifyReply): Promise<void> {
    reply.headers(this.limits.address.take(addressGroup(request.ip)));
    const { method, url } = request.routeOptions;
    if (url === undefined || !this.routes.has([method].flat()[0] ?? request.method, url)) return;
    await this.authenticate(request);
    const { tenantId, userId } = request.credential?.principal ?? {};
    reply.headers(this.limits.principal.take(`${tenantId}/${userId}`));
  }
}
