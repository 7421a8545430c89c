import { describe, expect, it } from '@jest/globals';
import { traceHeaders, traceOf } from './trace-context.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

describe('a trace context', () => {
  it('takes over the caller’s trace with a span of its own', () => {
    const trace = traceOf(`00-${TRACE}-${SPAN}-01`, 'vendor=1');
    expect(trace).toMatchObject({ traceId: TRACE, parentSpanId: SPAN, sampled: true, state: 'vendor=1' });
    expect(trace.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(trace.spanId).not.toBe(SPAN);
  });

  it('keeps the caller’s decision not to sample', () => {
    expect(traceHeaders(traceOf(`00-${TRACE}-${SPAN}-00`)).traceparent).toMatch(new RegExp(`^00-${TRACE}-.{16}-00$`));
  });

  it('is read from a later version with more fields', () => {
    expect(traceOf(`cc-${TRACE}-${SPAN}-01-what-comes`).traceId).toBe(TRACE);
  });

  it.each([
    ['nothing', undefined],
    ['an empty header', ''],
    ['upper case', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['the forbidden version', `ff-${TRACE}-${SPAN}-01`],
    ['more fields in version 0', `00-${TRACE}-${SPAN}-01-more`],
    ['two headers joined', `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`],
  ])('begins anew with %s', (_what, header) => {
    const trace = traceOf(header, 'vendor=1');
    expect(trace.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(trace.traceId).not.toBe(TRACE);
    expect(trace).toMatchObject({ sampled: true });
    expect(trace.parentSpanId).toBeUndefined();
    expect(trace.state).toBeUndefined();
  });

  it('is passed on as a parent for the next system', () => {
    const first = traceOf(undefined);
    const second = traceOf(traceHeaders(first).traceparent);
    expect(second).toMatchObject({ traceId: first.traceId, parentSpanId: first.spanId });
  });
});
