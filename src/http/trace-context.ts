import { randomUUID } from 'node:crypto';

/** A place in a distributed trace, as W3C Trace Context names it. */
export interface TraceContext {
  /** 32 lower-case hex digits, the same in every system that the request passes. */
  traceId: string;
  /** 16 lower-case hex digits: this service's part of the trace. */
  spanId: string;
  /** The caller's part; absent where the trace begins here. */
  parentSpanId?: string;
  sampled: boolean;
  /** What other tracing systems keep; passed on as it came. */
  state?: string;
}

/** https://www.w3.org/TR/trace-context/#traceparent-header; a later version may append fields, ff is forbidden. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const LONGEST_STATE = 512;
const SAMPLED = 1;

/** The caller's trace with a span of our own in it, or a new trace when the header is missing or broken. */
export function traceOf(traceparent: string | undefined, tracestate?: string): TraceContext {
  const [, version, traceId, parentSpanId, flags = '', rest] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || (version === '00' && rest !== undefined)) {
    return { traceId: randomHex(), spanId: makeSpanId(), sampled: true };
  }
  const sampled = (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED;
  const state = tracestate && tracestate.length <= LONGEST_STATE ? tracestate : undefined;
  return { traceId, spanId: makeSpanId(), parentSpanId, sampled, state };
}

/** The headers by which a call to another system becomes part of the trace. */
export function traceHeaders({ traceId, spanId, sampled, state }: TraceContext): Record<string, string> {
  const traceparent = `00-${traceId}-${spanId}-0${sampled ? SAMPLED : 0}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}

function makeSpanId(): string {
  return randomHex().slice(0, 16);
}

/** 32 digits. Never all zero: those of a UUID say its version, too. */
function randomHex(): string {
  return randomUUID().replaceAll('-', '');
}
