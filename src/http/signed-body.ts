import { RouteConfig } from '@nestjs/platform-fastify';
import type { FastifyRequest } from 'fastify';

/** What a route takes from senders who are known by the signature of the body only. */
export interface SignedBodyRule {
  limitBytes: number;
  /** In which the body has to be there. */
  patienceMs: number;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    signedBody?: SignedBodyRule;
  }
}

const RULE: SignedBodyRule = { limitBytes: 262_144, patienceMs: 10_000 };

/**
 * The route's sender is known only when the signature over the body is checked. Until then the body costs little: it is at
 * most 256 KiB, has 10 s, and reaches the handler as `rawBody` alone, not parsed.
 */
export const SignedBody = (): MethodDecorator => RouteConfig({ signedBody: RULE });

/** Null for routes that know their callers before. */
export function signedBodyOf(request: FastifyRequest): SignedBodyRule | null {
  return request.routeOptions.config.signedBody ?? null;
}
