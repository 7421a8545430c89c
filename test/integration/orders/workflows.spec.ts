import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';

describe('the workflows', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  const roles = ['operator', 'admin'];
  const order = {
    name: 'order',
    initialState: 'pending',
    states: ['pending', 'canceled', 'confirmed', 'shipped', 'delivered'],
    finalStates: ['canceled', 'delivered'],
    transitions: [
      { from: 'confirmed', to: 'canceled', roles, requiresReason: true, guards: [] },
      { from: 'confirmed', to: 'shipped', roles, requiresReason: false, guards: [] },
      { from: 'pending', to: 'canceled', roles, requiresReason: true, guards: [] },
      { from: 'pending', to: 'confirmed', roles, requiresReason: false, guards: [] },
      { from: 'shipped', to: 'delivered', roles, requiresReason: false, guards: [] },
    ],
  };

  it('are listed, and read one by one, as the live tables have them', async () => {
    const list = await service.as('viewer').get<{ data: { name: string }[] }>('/v1/workflows');
    expect(list.status).toBe(200);
    expect(list.body.data.find(({ name }) => name === 'order')).toEqual(order);
    const one = await service.as('auditor').get('/v1/workflows/order');
    expect(one.status).toBe(200);
    expect(one.body).toEqual(order);
  });

  it.each(['/v1/workflows/nothing', '/v1/workflows/__proto__', '/v1/workflows/nothing/diagram', '/v1/workflows/ORDER'])(
    'are not found at %s',
    async (path) => {
      const { status, body } = await service.as('viewer').get<ProblemAnswer>(path);
      expect(status).toBe(404);
      expect(body).toMatchObject({ code: 'not-found' });
    },
  );

  it.each(['/v1/workflows', '/v1/workflows/order', '/v1/workflows/order/diagram'])(
    'take no parameters: %s',
    async (path) => {
      const { status, body } = await service.as('viewer').get<ProblemAnswer>(`${path}?verbose=1`);
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: 'unknown-parameter', errors: [{ parameter: 'verbose' }] });
    },
  );

  it.each(['/v1/workflows', '/v1/workflows/order', '/v1/workflows/order/diagram'])(
    'are for callers: %s',
    async (path) => {
      const response = await fetch(service.baseUrl + path);
      expect(response.status).toBe(401);
    },
  );

  describe('as a diagram', () => {
    const draw = (accept?: string) =>
      service.as('viewer').get<ProblemAnswer>('/v1/workflows/order/diagram', accept === undefined ? {} : { accept });

    it.each([
      ['image/svg+xml', 'image/svg+xml', /^<\?xml|^<svg/],
      ['text/vnd.mermaid', 'text/vnd.mermaid', /stateDiagram-v2/],
      ['text/vnd.graphviz', 'text/vnd.graphviz', /^digraph /],
      ['*/*', 'image/svg+xml', /<svg/],
      ['image/*', 'image/svg+xml', /<svg/],
      ['text/html, text/vnd.mermaid;q=0.5, image/svg+xml;q=0.1', 'text/vnd.mermaid', /stateDiagram-v2/],
      ['text/vnd.graphviz;q=0, text/vnd.mermaid', 'text/vnd.mermaid', /stateDiagram-v2/],
    ])('asked for as %s come as %s', async (accept, type, looks) => {
      const { status, headers, text } = await draw(accept);
      expect(status).toBe(200);
      expect(headers.get('content-type')).toBe(`${type}; charset=utf-8`);
      expect(headers.get('vary')).toBe('Accept');
      expect(text).toMatch(looks);
      for (const state of order.states) expect(text).toContain(state);
    });

    it('show an edge for each rule', async () => {
      const { text } = await draw('text/vnd.mermaid');
      for (const { from, to } of order.transitions) expect(text).toMatch(new RegExp(`${from} --> ${to}\\b`));
      expect(text).toMatch(/\[\*\] --> pending/);
      expect(text).toMatch(/delivered --> \[\*\]/);
    });

    it.each(['application/json', 'text/html', 'image/png', 'image/svg+xml;q=0'])(
      'asked for as %s only are not acceptable',
      async (accept) => {
        const { status, headers, body } = await draw(accept);
        expect(status).toBe(406);
        expect(headers.get('content-type')).toBe('application/problem+json');
        expect(body).toMatchObject({ code: 'not-acceptable' });
        expect(body.detail).toContain('image/svg+xml, text/vnd.mermaid, text/vnd.graphviz');
      },
    );
  });
});
