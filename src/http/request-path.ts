import type {
  FastifyInstance,
  onRequestHookHandler,
  onResponseHookHandler,
  onRouteHookHandler,
  onSendHookHandler,
  preParsingHookHandler,
  preValidationHookHandler,
} from 'fastify';
import { allowOrigins } from './cross-origin.js';
import { answerNotModified } from './entity-tag.js';
import { tellRequestId } from './request-id.js';
import { setSecurityHeaders } from './security-headers.js';
import { forgetForwardedPorts } from './forwarded-for.js';
import { refuseUnknownAddress, rememberRoute } from './unknown-address.js';

/**
 * Every hook of Fastify, in the order in which a request passes them. Those that are another room's, in parentheses, are
 * handed over by `createApp`.
 */
const HOOKS = [
  // Before there are requests: which methods an address knows.
  ['onRoute', 'rememberRoute'],

  // Whose request it is, before anybody asks.
  ['onRequest', 'forgetForwardedPorts'],
  // The request becomes the context of all that runs for it, logs and traces included. (observability)
  ['onRequest', 'beginObservation'],
  ['onRequest', 'tellRequestId'],
  ['onRequest', 'setSecurityHeaders'],
  // CORS, where the settings name origins; it answers preflights itself.
  ['onRequest', 'allowOrigins'],
  // What is turned away from here on costs no reading of a body: too many requests (identity), addresses that lead nowhere,
  ['onRequest', 'countByAddress'],
  ['onRequest', 'refuseLargeBody'],
  ['onRequest', 'refuseUnknownAddress'],
  // callers whose credentials are not good, and again too many requests (identity),
  ['onRequest', 'identifyCaller'],
  // and, where the body is signed, signatures of which that can be said without it. (payments)
  ['onRequest', 'expectSignature'],

  ['preParsing', 'expectBody'],
  // Now body-parser.ts reads the body, in events of the socket, which know nothing of the request. (observability)
  ['preValidation', 'restoreContext'],

  // Now Nest: guard, interceptors, pipes, the handler; server-options.ts says what becomes of errors.
  ['onSend', 'answerNotModified'],
  // A kept connection ends with the last answers of a process. (health)
  ['onSend', 'closeWhenDraining'],
  // The transaction of a request that only read ends before its answer leaves. (database)
  ['onSend', 'endReading'],
  // What is answered before all of it came is read to its end, or most clients would never see the answer.
  ['onSend', 'discardBody'],

  // The line of the log, the figures, the end of the trace's span. (observability)
  ['onResponse', 'reportRequest'],
  // For an answer that never came as far as onSend. (database)
  ['onResponse', 'endBrokenReading'],
] as const;

interface Handlers {
  onRoute: onRouteHookHandler;
  onRequest: onRequestHookHandler;
  preParsing: preParsingHookHandler;
  preValidation: preValidationHookHandler;
  onSend: onSendHookHandler<unknown>;
  onResponse: onResponseHookHandler;
}

type Entry = (typeof HOOKS)[number];
type Hooks = { readonly [E in Entry as Exclude<E[1], 'allowOrigins'>]: Handlers[E[0]] };

const OWN = {
  rememberRoute,
  forgetForwardedPorts,
  tellRequestId,
  setSecurityHeaders,
  refuseUnknownAddress,
  answerNotModified,
};

/** Hooks of Nest's providers, which Nest makes when the server has its hooks already. */
export type ProvidedHooks = Pick<
  Hooks,
  'countByAddress' | 'identifyCaller' | 'expectSignature' | 'endReading' | 'endBrokenReading'
>;

/** Hooks that other rooms hand over as functions. */
export type HandedHooks = Omit<Hooks, keyof typeof OWN | keyof ProvidedHooks>;

/** The names of hooks in their order, for one of Fastify's points. */
export function hooksAt(point: keyof Handlers): string[] {
  return HOOKS.flatMap(([at, name]) => (at === point ? [name] : []));
}

/**
 * Makes a server pass its requests through all hooks. Call it before Nest, whose middleware is a hook as well, and before
 * any route is added.
 *
 * @returns takes the hooks that Nest's providers have; call it before the first request
 */
export async function registerRequestPath(
  fastify: FastifyInstance,
  handed: HandedHooks,
  { corsOrigins }: { corsOrigins: readonly string[] },
): Promise<(provided: ProvidedHooks) => void> {
  const hooks: Partial<Hooks> = { ...OWN, ...handed };
  for (const [point, name] of HOOKS) {
    if (name === 'allowOrigins') await allowOrigins(fastify, corsOrigins);
    else fastify.addHook(point as 'onRequest', (hooks[name] ?? calledLater(hooks, name)) as onRequestHookHandler);
  }
  return (provided) => void Object.assign(hooks, provided);
}

/** A hook that isn't there yet, under the name by which Fastify shows it. */
function calledLater(hooks: Partial<Hooks>, name: keyof Hooks): unknown {
  const call = (...parameters: never[]): unknown => (hooks[name] as (...all: never[]) => unknown)(...parameters);
  return Object.defineProperty(call, 'name', { value: name });
}
