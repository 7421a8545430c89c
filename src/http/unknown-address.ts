import type { FastifyReply, FastifyRequest, onRouteHookHandler } from 'fastify';
import { DomainError, methodNotAllowed, notFound } from '../problems/index.js';

interface KnownRoute {
  methods: readonly string[];
  segments: readonly string[];
}

const routesOf = new WeakMap<object, KnownRoute[]>();

/**
 * Notes a route of the server that it is added to, so that an unknown method on a known address can be told from an unknown
 * address. Fastify answers 404 to both, and its router can be asked for patterns only, not for addresses.
 */
export const rememberRoute: onRouteHookHandler = function rememberRoute({ method, url }) {
  const routes = routesOf.get(this.server) ?? [];
  routesOf.set(this.server, routes);
  routes.push({ methods: [method].flat(), segments: url.split('/') });
};

/**
 * Before a body is read: nobody needs to be known here.
 *
 * @throws DomainError `not-found` for an address that no route has, or nothing could have, and `method-not-allowed` where it
 *   knows other methods
 */
export function refuseUnknownAddress(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  if (!request.is404) {
    refuseUnusableSteps(request);
    done();
    return;
  }
  const allowed = allowedMethods(request);
  if (allowed.length === 0 || allowed.includes(request.method)) {
    throw new DomainError(notFound, 'There is nothing at this address.');
  }
  throw new DomainError(methodNotAllowed, `This address knows ${allowed.join(', ')}.`, undefined, {
    headers: { allow: allowed.join(', ') },
  });
}

/**
 * The router takes an empty step for a parameter (`/v1/orders//history`, `/v1/orders/`), which no record has; nor one with a NUL
 * (`%00`), which PostgreSQL can't hold.
 */
function refuseUnusableSteps({ params }: FastifyRequest): void {
  const steps = Object.entries((params ?? {}) as Record<string, string>);
  // A catch-all stands for any number of steps.
  if (steps.some(([name, step]) => (step === '' && name !== '*') || step.includes('\0'))) {
    throw new DomainError(notFound, 'There is nothing at this address.');
  }
}

/** The methods that the address of a request has routes for, sorted; empty for an unknown address. */
function allowedMethods({ server, url }: FastifyRequest): string[] {
  const segments = url.replace(/[?#].*$/s, '').split('/');
  const methods = new Set<string>();
  for (const route of routesOf.get(server.server) ?? []) {
    if (matches(route.segments, segments)) route.methods.forEach((method) => methods.add(method));
  }
  return [...methods].toSorted();
}

/** A catch-all says nothing of whether an address exists: @fastify/cors adds one for OPTIONS. */
function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((step, index) => {
      const segment = segments[index] ?? '';
      if (step === '*') return false;
      return step.startsWith(':') ? segment !== '' : step === segment;
    })
  );
}
