import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import helmet from 'helmet';

/** JSON loads nothing and runs nowhere; a page that needs more, like those of problems, says so itself. */
const API_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** Swagger UI brings its scripts as files and its styles inline. It is same-origin, so it can call the API. */
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const DOCS_PATH = /^\/docs(?:[/?]|$)/;

/** Security headers on every answer, refusals included. */
export function setSecurityHeaders(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  reply.headers(SAME_FOR_ALL).header('content-security-policy', DOCS_PATH.test(request.url) ? DOCS_POLICY : API_POLICY);
  done();
}

/** Helmet's headers don't depend on the request, so it is asked once. */
const SAME_FOR_ALL = helmetHeaders();

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
