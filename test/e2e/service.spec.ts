import { describe, expect, it } from '@jest/globals';
import { ApiClient } from '../support/api-client.js';
import type { ProblemAnswer } from '../support/builders.js';
import { startSuite } from './support/suite.js';

describe('the service', () => {
  const { api } = startSuite();

  it('is alive and ready', async () => {
    expect((await api.get('/health/live')).status).toBe(200);
    expect((await api.get('/health/ready')).status).toBe(200);
  });

  it('lets in nobody without a key, or with a wrong one', async () => {
    for (const key of [undefined, 'wb_1_000000000000_0000000000000000000000000000000000000000000']) {
      const { status, body } = await new ApiClient(api.baseUrl, key).get<ProblemAnswer>('/v1/orders');
      expect([status, body.code]).toEqual([401, 'unauthenticated']);
    }
  });

  it('has a page for the type of each problem', async () => {
    const { body } = await api.get<ProblemAnswer>('/v1/orders/none');
    const page = await fetch(new URL(body.type, api.baseUrl));
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('What to do');
  });

  it('draws the machine of orders', async () => {
    const svg = await api.get('/v1/workflows/order/diagram');
    expect(svg.text).toContain('<svg');
  });
});
