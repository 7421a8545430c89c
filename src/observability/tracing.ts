import type { Span } from '@opentelemetry/api';
import { type TraceContext, traceOf } from '../http/index.js';

/** The part of a trace that is one request's. */
export interface RequestSpan {
  trace: TraceContext;
  end(answer: { method: string; route: string; status: number }): void;
}

/** Where traces go. */
export interface Tracing {
  begin(traceparent: string | undefined, tracestate: string | undefined): RequestSpan;
  /** Sends what has not been sent yet. */
  stop(): Promise<void>;
}

const FLUSH_MS = 3_000;

/**
 * Sends a span for each sampled request to a collector, over OTLP/HTTP. The SDK is loaded only for that: without an
 * endpoint the service takes trace context over and passes it on, which needs none. See docs/adr/0060.
 *
 * @param endpoint such as http://collector:4318; the SDK reads the other OTEL_* variables itself
 */
export async function startTracing(endpoint: string, version: string): Promise<Tracing> {
  const [{ BasicTracerProvider, BatchSpanProcessor }, { OTLPTraceExporter }, { resourceFromAttributes }, api] =
    await Promise.all([
      import('@opentelemetry/sdk-trace-base'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/api'),
    ]);
  const url = new URL('v1/traces', endpoint.endsWith('/') ? endpoint : `${endpoint}/`).href;
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'waybill', 'service.version': version }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url, timeoutMillis: FLUSH_MS }))],
  });
  const tracer = provider.getTracer('waybill', version);
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags } = api;

  return {
    begin: (traceparent, tracestate) => {
      const given = traceOf(traceparent, tracestate);
      const parent = given.parentSpanId && {
        traceId: given.traceId,
        spanId: given.parentSpanId,
        traceFlags: given.sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
        isRemote: true,
      };
      const context = parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
      const span = tracer.startSpan('request', { kind: SpanKind.SERVER }, context);
      return {
        trace: { ...given, ...identityOf(span, TraceFlags.SAMPLED) },
        end: ({ method, route, status }) => {
          span.updateName(`${method} ${route}`);
          span.setAttributes({
            'http.request.method': method,
            'http.route': route,
            'http.response.status_code': status,
          });
          if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },
    stop: () => provider.shutdown(),
  };
}

function identityOf(span: Span, sampledFlag: number): Pick<TraceContext, 'traceId' | 'spanId' | 'sampled'> {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return { traceId, spanId, sampled: (traceFlags & sampledFlag) !== 0 };
}
