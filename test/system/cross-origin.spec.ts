import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { ApiClient } from '../support/api-client.js';
import { chromiumMissing, launchChromium } from '../support/chromium.js';
import { startService, type StartedService } from '../support/started-service.js';

const isRequired = process.env.REQUIRE_CHROMIUM === '1';
const suite = chromiumMissing && !isRequired ? describe.skip : describe;
if (chromiumMissing && !isRequired) console.warn(`Pages of other origins are not tested. ${chromiumMissing}.`);

interface Seen {
  status: number;
  headers: Record<string, string>;
}

interface Asked {
  method?: string;
  headers: Record<string, string>;
  body?: string;
}

/** Runs in the page. */
async function ask([url, init]: [string, Asked]): Promise<Seen | string> {
  try {
    const response = await fetch(url, init);
    return { status: response.status, headers: Object.fromEntries(response.headers.entries()) };
  } catch (error) {
    return String(error);
  }
}

suite('a page of another origin in a browser', () => {
  let service: StartedService;
  let shop: Server;
  let browser: Browser;
  let page: Page;
  let origin: string;
  beforeAll(async () => {
    if (chromiumMissing) throw new Error(chromiumMissing);
    shop = createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<h1>Shop</h1>'));
    shop.listen(0, '127.0.0.1');
    await once(shop, 'listening');
    origin = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
    service = await startService({ CORS_ORIGINS: origin, RATE_LIMIT: 'principal=4/h' });
    browser = await launchChromium();
    page = await browser.newPage();
    await page.goto(origin);
  });
  afterAll(async () => {
    await browser?.close();
    await service?.stop();
    shop?.close();
  });

  const headers = (role: string) => ({
    authorization: `Bearer ${service.keys[role]}`,
    'content-type': 'application/json',
  });
  const fetchInPage = (path: string, init: Asked): Promise<Seen | string> =>
    page.evaluate(ask, [service.baseUrl + path, init] as [string, Asked]);
  const order = {
    channel: 'browser',
    currency: 'EUR',
    customer: { ref: 'c-1' },
    lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 5 }],
  };
  const place = (): Promise<Seen | string> =>
    fetchInPage('/v1/orders', {
      method: 'POST',
      headers: { ...headers('operator'), 'idempotency-key': 'from-the-shop' },
      body: JSON.stringify(order),
    });

  it('places an order, and reads where it is, its version, and that a retry was one', async () => {
    expect(await place()).toMatchObject({
      status: 201,
      headers: {
        location: expect.stringMatching(/^\/v1\/orders\//),
        etag: '"1"',
        'x-request-id': expect.any(String),
        ratelimit: expect.any(String),
        'ratelimit-policy': expect.any(String),
      },
    });
    expect(await place()).toMatchObject({
      status: 201,
      headers: { 'idempotency-replayed': 'true', 'idempotency-created-at': expect.any(String) },
    });
  });

  it('changes it by its version, pages through the list, and reads when to come back', async () => {
    const { body: another } = await new ApiClient(service.baseUrl, service.keys.admin).post<{ id: string }>(
      '/v1/orders',
      order,
    );
    expect(await fetchInPage('/v1/orders?limit=1', { headers: headers('operator') })).toMatchObject({
      status: 200,
      headers: { link: expect.stringContaining('rel="next"') },
    });
    const change = { method: 'PATCH', headers: { ...headers('operator'), 'if-match': '"1"' }, body: '{"shipping":7}' };
    expect(await fetchInPage(`/v1/orders/${another.id}`, change)).toMatchObject({
      status: 200,
      headers: { etag: '"2"' },
    });
    expect(await fetchInPage('/v1/orders', { headers: headers('operator') })).toMatchObject({
      status: 429,
      headers: { 'retry-after': expect.stringMatching(/^\d+$/) },
    });
  });

  it('gets nothing at all when its origin is not named', async () => {
    await page.goto(origin.replace('127.0.0.1', 'localhost'));
    expect(await fetchInPage('/v1/orders', { headers: headers('viewer') })).toContain('Failed to fetch');
  });
});
