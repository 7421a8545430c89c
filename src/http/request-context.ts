import { AsyncLocalStorage } from 'node:async_hooks';
import type { TraceContext } from './trace-context.js';

/** What is known of the request that the running code works for. Logs, metrics and outgoing calls read it. */
export interface RequestContext {
  readonly requestId: string;
  readonly trace: TraceContext;
  /** The code of the problem that the request was answered with. */
  problem?: string;
}

const requests = new AsyncLocalStorage<RequestContext>();

/** Runs `work`, and all that it starts, as part of a request. */
export function runInRequest<T>(context: RequestContext, work: () => T): T {
  return requests.run(context, work);
}

/** The request that the running code belongs to; undefined for background work. */
export function currentRequest(): RequestContext | undefined {
  return requests.getStore();
}

/** Notes what the request is answered with when it fails. */
export function noteProblem(code: string): void {
  const request = currentRequest();
  if (request) request.problem = code;
}
