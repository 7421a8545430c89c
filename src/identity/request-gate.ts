import { Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ContextualRequest } from '../database/index.js';
import type { ProvidedHooks } from '../http/index.js';
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
export class RequestGate {
  readonly hooks: Pick<ProvidedHooks, 'countByAddress' | 'identifyCaller'> = {
    countByAddress: (request, reply, done) => {
      if (!request.routeOptions.config.uncounted) reply.headers(this.limits.address.take(addressGroup(request.ip)));
      done();
    },
    identifyCaller: (request, reply) => this.identifyCaller(request as GateRequest, reply),
  };

  constructor(
    private readonly routes: GuardedRoutes,
    private readonly authenticator: Authenticator,
    private readonly limits: RateLimits,
    private readonly uses: KeyUseRecorder,
  ) {}

  /** Leaves the caller's credential and principal on the request. */
  async authenticate(request: GateRequest): Promise<void> {
    const [, text] = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (text === undefined) throw new Unauthenticated();
    const sender = { address: addressGroup(request.ip), requestId: request.id };
    request.credential = await this.authenticator.identify(text, sender);
    request.principal = request.credential.principal;
    this.uses.note(request.credential);
  }

  private async identifyCaller(request: GateRequest, reply: FastifyReply): Promise<void> {
    const { method, url } = request.routeOptions;
    if (url === undefined || !this.routes.has([method].flat()[0] ?? request.method, url)) return;
    await this.authenticate(request);
    // What somebody may see is for nobody's cache, unless the route says otherwise.
    reply.header('cache-control', 'no-store');
    this.countByUser(request, reply);
  }

  private countByUser({ principal }: GateRequest, reply: FastifyReply): void {
    reply.headers(this.limits.principal.take(`${principal?.tenantId}/${principal?.userId}`));
  }
}
