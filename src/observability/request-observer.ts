import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { currentRequest, type HandedHooks, type RequestContext, runInRequest, traceOf } from '../http/index.js';
import { idempotencyOutcome } from './idempotency-outcome.js';
import { tracePropagation } from './outgoing-calls.js';
import type { ServiceMetrics } from './service-metrics.js';
import type { RequestSpan, Tracing } from './tracing.js';

interface Observation {
  context: RequestContext;
  span: RequestSpan | undefined;
}

/** What authentication left on the request, if it came that far. */
interface Authenticated {
  principal?: { tenantId: number; userId: string };
}

export interface Observers {
  log: Logger;
  metrics: ServiceMetrics;
  tracing: Tracing | null;
}

const OBSERVATION = Symbol('observation');
type Observed = FastifyRequest & { [OBSERVATION]?: Observation };

const READING = new Set(['GET', 'HEAD', 'OPTIONS']);
/** What machines ask for every few seconds; nobody looks for it in the log. */
const PROBES = new Set(['/metrics', '/health/live', '/health/ready']);

/** Hooks that give every request its context, and log, count and trace it once it is answered. */
export function observationHooks({
  log,
  metrics,
  tracing,
}: Observers): Pick<HandedHooks, 'beginObservation' | 'restoreContext' | 'reportRequest'> {
  tracePropagation();
  // Looking for members to redact costs more than all the rest of the line, whose members are all named below.
  const requestLog = log.child({}, { redact: [] });
  return { beginObservation, restoreContext, reportRequest };

  function beginObservation(request: Observed, _reply: FastifyReply, done: () => void): void {
    const { traceparent, tracestate } = request.headers;
    const [parent, state] = [traceparent, tracestate].map((value) => (Array.isArray(value) ? value.join() : value));
    const span = tracing?.begin(parent, state);
    const context = { requestId: request.id, trace: span?.trace ?? traceOf(parent, state) };
    request[OBSERVATION] = { context, span };
    metrics.begin();
    runInRequest(context, done);
  }

  function restoreContext(request: Observed, _reply: FastifyReply, done: () => void): void {
    const context = request[OBSERVATION]?.context;
    if (context && context !== currentRequest()) runInRequest(context, done);
    else done();
  }

  function reportRequest(request: Observed, reply: FastifyReply, done: () => void): void {
    const observation = request[OBSERVATION];
    if (observation) report(request, reply, observation);
    done();
  }

  function report(request: Observed & Authenticated, reply: FastifyReply, { context, span }: Observation): void {
    const { method, headers, principal } = request;
    const route = request.is404 ? 'none' : (request.routeOptions.url ?? 'none');
    const { statusCode: status, elapsedTime } = reply;
    const { problem } = context;
    const replayed = reply.getHeader('idempotency-replayed') === 'true';
    const hasKey = headers['idempotency-key'] !== undefined && !READING.has(method);
    const idempotency = idempotencyOutcome({ hasKey, replayed, status, problem });
    metrics.end({ method, route, status, seconds: elapsedTime / 1000, idempotency, problem });
    span?.end({ method, route, status });
    // A flood of wrong keys must fill no log; the metrics count it.
    const isTurnedAway = !principal && (status === 401 || status === 429);
    requestLog[PROBES.has(route) || isTurnedAway ? 'debug' : 'info'](
      {
        event: 'request',
        requestId: context.requestId,
        traceId: context.trace.traceId,
        spanId: context.trace.spanId,
        ...(principal && { tenant: principal.tenantId, user: principal.userId }),
        method,
        route,
        status,
        durationMs: Math.round(elapsedTime * 100) / 100,
        ...(idempotency && { idempotency }),
        ...(problem && { problem }),
        ...(reply.raw.writableFinished ? {} : { aborted: true }),
      },
      `${method} ${route} ${status}`,
    );
  }
}
