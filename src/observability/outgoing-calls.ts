import { subscribe } from 'node:diagnostics_channel';
import { currentRequest, traceHeaders } from '../http/index.js';

/** What Node's fetch says of a request that it is about to send. */
interface OutgoingRequest {
  addHeader(name: string, value: string): unknown;
}

let subscribed = false;

/**
 * Passes the trace on with every `fetch` that is made for a request, whoever makes it: providers and publishers needn't
 * think of it. https://github.com/nodejs/undici/blob/main/docs/docs/api/DiagnosticsChannel.md
 */
export function tracePropagation(): void {
  if (subscribed) return;
  subscribed = true;
  subscribe('undici:request:create', (message) => {
    const current = currentRequest();
    if (!current) return;
    const { request } = message as { request: OutgoingRequest };
    for (const [name, value] of Object.entries(traceHeaders(current.trace))) request.addHeader(name, value);
  });
}
