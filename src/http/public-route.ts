import { SetMetadata } from '@nestjs/common';
import { RouteConfig } from '@nestjs/platform-fastify';

declare module 'fastify' {
  interface FastifyContextConfig {
    uncounted?: boolean;
  }
}

/** Metadata key that the auth guard reads: the route or controller needs no credentials. */
export const PUBLIC_ROUTE = 'waybill:public-route';

/** Marks a controller or handler that anyone may call. */
export const Public = () => SetMetadata(PUBLIC_ROUTE, true);

/** Requests of this route count against no limit: a balancer that is told 429 would take the process for a dead one. */
export const Uncounted = (): MethodDecorator => RouteConfig({ uncounted: true });
