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
  readonly hooks: Pick<ProvidedHooks, 'admit'> = {
    admit: (request, reply, done) => {
      // Fastify goes on when it is told to, or when the promise that it is given settles.
      const waiting = this.admit(request as GateRequest, reply);
      if (!waiting) done();
      return waiting;
    },
  };

  constructor(
    private readonly routes: GuardedRoutes,
    private readonly authenticator: Authenticator,
    private readonly limits: RateLimits,
    private readonly uses: KeyUseRecorder,
  ) {}

  /** Leaves the caller's credential and principal on the request: at once, where they were asked for lately. */
  authenticate(request: GateRequest): Promise<void> | undefined {
    const [, text] = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (text === undefined) throw new Unauthenticated();
    const found = this.authenticator.identify(text, { address: addressGroup(request.ip), requestId: request.id });
    if (found instanceof Promise) return found.then((credential) => this.accept(request, credential));
    this.accept(request, found);
    return undefined;
  }

  private accept(request: GateRequest, credential: Credential): void {
    request.credential = credential;
    request.principal = credential.principal;
    this.uses.note(credential);
  }

  private admit(request: GateRequest, reply: FastifyReply): Promise<void> | undefined {
    reply.headers(this.limits.address.take(addressGroup(request.ip)));
    const { method, url } = request.routeOptions;
    if (url === undefined || !this.routes.has([method].flat()[0] ?? request.method, url)) return undefined;
    const waiting = this.authenticate(request);
    if (waiting) return waiting.then(() => this.countByUser(request, reply));
    this.countByUser(request, reply);
    return undefined;
  }

  private countByUser({ principal }: GateRequest, reply: FastifyReply): void {
    reply.headers(this.limits.principal.take(`${principal?.tenantId}/${principal?.userId}`));
  }
}
