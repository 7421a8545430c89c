import cors from '@fastify/cors';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import helmet from 'helmet';

/** What a page of another origin may read beside the few headers that browsers always show. */
const EXPOSED_HEADERS = [
  'Content-Disposition',
  'ETag',
  'Idempotency-Created-At',
  'Idempotency-Replayed',
  'Link',
  'Location',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Request-Id',
];
const PREFLIGHT_SECONDS = 600;

/** JSON loads nothing and runs nowhere; a page that needs more, like those of problems, says so itself. */
const API_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** Swagger UI brings its scripts as files and its styles inline. It is same-origin, so it can call the API. */
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const DOCS_PATH = /^\/docs(?:[/?]|$)/;

/**
 * Security headers on every answer, and CORS for the origins of the settings. Call it before any other hook is added, so
 * that refusals carry the headers, too.
 */
export async function hardenHttp(
  fastify: FastifyInstance,
  { corsOrigins }: { corsOrigins: readonly string[] },
): Promise<void> {
  const securityHeaders = helmetHeaders();
  fastify.addHook('onRequest', (request, reply, done) => {
    reply
      .headers(securityHeaders)
      .header('content-security-policy', DOCS_PATH.test(request.url) ? DOCS_POLICY : API_POLICY);
    done();
  });
  if (corsOrigins.length === 0) return;
  await fastify.register(cors, {
    origin: [...corsOrigins],
    methods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
    strictPreflight: false,
  });
}

/** Helmet's headers, which are the same for every answer: asked for once, as running it costs each request microseconds. */
function helmetHeaders(): Record<string, string> {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  const setHeaders = helmet({
    contentSecurityPolicy: false,
    // This service doesn't know whether its neighbours below the same domain speak HTTPS.
    strictTransportSecurity: { maxAge: 31_536_000, includeSubDomains: false },
  });
  setHeaders(request, response, () => undefined);
  return Object.fromEntries(Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)]));
}
