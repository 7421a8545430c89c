import type { FastifyInstance } from 'fastify';

interface KnownRoute {
  methods: readonly string[];
  segments: readonly string[];
}

const routesOf = new WeakMap<object, KnownRoute[]>();

/**
 * Remembers the routes of a server, so that an unknown method on a known path can be told from an unknown path. Fastify
 * answers 404 to both, and its router can be asked for patterns only, not for concrete paths. Call it before any route
 * is added.
 */
export function rememberRoutes(fastify: FastifyInstance): void {
  const routes: KnownRoute[] = [];
  routesOf.set(fastify.server, routes);
  fastify.addHook('onRoute', ({ method, url }) => {
    routes.push({ methods: [method].flat(), segments: url.split('/') });
  });
}

/** The methods that a path (without query) has a route for, sorted; empty for an unknown path. */
export function allowedMethods(fastify: FastifyInstance, path: string): string[] {
  const segments = path.split('/');
  const methods = new Set<string>();
  for (const route of routesOf.get(fastify.server) ?? []) {
    if (matches(route.segments, segments)) route.methods.forEach((method) => methods.add(method));
  }
  return [...methods].toSorted();
}

/** A catch-all says nothing of whether a path exists: @fastify/cors adds one for OPTIONS. */
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
