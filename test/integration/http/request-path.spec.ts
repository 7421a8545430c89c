import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { FastifyInstance } from 'fastify';
import { hooksAt } from '../../../src/http/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';

let service: TestApp;
beforeAll(async () => {
  service = await startTestApp({ env: { CORS_ORIGINS: 'https://shop.example' } });
});
afterAll(() => service.close());

const POINTS = ['onRequest', 'preParsing', 'preValidation', 'onSend', 'onResponse'] as const;

describe('the path of a request', () => {
  it('has the hooks of the list, in their order, between the first of Nest and its middleware', async () => {
    const bare = new FastifyAdapter().getInstance();
    bare.get('/', () => 'never asked');
    await bare.ready();
    const ofNest = hooksOf(bare, '/');
    const hooks = hooksOf(service.app.getHttpAdapter().getInstance(), '/v1/orders');
    for (const point of POINTS) {
      const first = ofNest.get(point) ?? [];
      const last = point === 'onRequest' ? ['runMiddie'] : [];
      const expected = [...first, ...hooksAt(point).map(asFastifyNamesIt), ...last];
      expect({ point, hooks: hooks.get(point) }).toEqual({ point, hooks: expected });
    }
    expect([...hooks.keys()].toSorted()).toEqual([...POINTS].toSorted());
  });

  it('is the same for a route that no controller has', () => {
    const fastify = service.app.getHttpAdapter().getInstance();
    expect(hooksOf(fastify, '/openapi.json')).toEqual(hooksOf(fastify, '/v1/orders'));
  });
});

/** The plugin for CORS names its hook itself. */
function asFastifyNamesIt(name: string): string {
  return name === 'allowOrigins' ? 'handleCors' : name;
}

/** What Fastify tells of the hooks of a route, in their order. */
function hooksOf(fastify: Pick<FastifyInstance, 'printRoutes'>, path: string): Map<string, string[]> {
  const lines = fastify.printRoutes({ includeHooks: true, commonPrefix: false }).split('\n');
  const start = lines.findIndex((line) => line.includes(`${path} (`));
  const found = new Map<string, string[]>();
  for (const line of lines.slice(start + 1)) {
    const [, point, names] = /• \((\w+)\) (\[.*\])/.exec(line) ?? [];
    if (!point || !names) break;
    found.set(
      point,
      (JSON.parse(names) as string[]).map((name) => name.replace('()', '')),
    );
  }
  return found;
}
