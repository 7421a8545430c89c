import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { runInRequest, traceOf } from '../../../src/http/index.js';
import { startTestApp } from '../../support/app.js';

interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  attributes: { key: string; value: { stringValue?: string; intValue?: number } }[];
}
interface ExportRequest {
  resourceSpans: { scopeSpans: { spans: ReceivedSpan[] }[] }[];
}

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

describe('a trace', () => {
  let collector: Server;
  let collectorUrl: string;
  const spans: ReceivedSpan[] = [];
  const seen: IncomingMessage['headers'][] = [];
  beforeAll(async () => {
    collector = createServer((request, response) => {
      seen.push(request.headers);
      void collect(request).finally(() => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
    });
    collector.listen(0, '127.0.0.1');
    await once(collector, 'listening');
    const address = collector.address();
    collectorUrl = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  });
  afterAll(async () => {
    collector.close();
    await once(collector, 'close');
  });

  async function collect(request: IncomingMessage): Promise<void> {
    if (request.method !== 'POST') return;
    const { resourceSpans } = (await json(request)) as ExportRequest;
    spans.push(...resourceSpans.flatMap((part) => part.scopeSpans.flatMap((scope) => scope.spans)));
  }

  it('gets a span for each request, below the caller’s, and the last ones when the service ends', async () => {
    const service = await startTestApp({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl } });
    await service.as('viewer').get('/v1/orders', { traceparent: `00-${TRACE}-${PARENT}-01` });
    await service.close();
    const span = spans.find(({ traceId }) => traceId === TRACE);
    expect(span).toMatchObject({ name: 'GET /v1/orders', parentSpanId: PARENT });
    expect(span?.attributes).toContainEqual({ key: 'http.response.status_code', value: { intValue: 200 } });
  });

  it('gets none of a request whose caller does not sample', async () => {
    const service = await startTestApp({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collectorUrl } });
    const traceId = TRACE.replaceAll('0', '1');
    await service.as('viewer').get('/v1/orders', { traceparent: `00-${traceId}-${PARENT}-00` });
    await service.close();
    expect(spans.map((span) => span.traceId)).not.toContain(traceId);
  });

  it('goes on in calls that are made for the request, however late', async () => {
    const trace = traceOf(`00-${TRACE}-${PARENT}-01`, 'vendor=1');
    const service = await startTestApp();
    await runInRequest({ requestId: 'r-1', trace }, async () => {
      await sleep(1);
      await fetch(`${collectorUrl}/elsewhere`);
    });
    await service.close();
    expect(seen.at(-1)).toMatchObject({ traceparent: `00-${TRACE}-${trace.spanId}-01`, tracestate: 'vendor=1' });
    await fetch(`${collectorUrl}/elsewhere`);
    expect(seen.at(-1)).not.toHaveProperty('traceparent');
  });
});
