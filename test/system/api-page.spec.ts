import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { chromiumMissing, launchChromium } from '../support/chromium.js';
import { startService, type StartedService } from '../support/started-service.js';
import { HANG_MS } from '../support/waiting.js';

const ROOT = join(import.meta.dirname, '../..');
const PICTURES = join(ROOT, 'reports');
const isRequired = process.env.REQUIRE_CHROMIUM === '1';
const suite = chromiumMissing && !isRequired ? describe.skip : describe;
if (chromiumMissing && !isRequired) console.warn(`The API page is not tested. ${chromiumMissing}.`);

/** The module that docs/extending.md lets people start with. */
function extensionToTry(): string {
  const [, module = ''] =
    /WAYBILL_EXTENSIONS=(\S+) npm start$/m.exec(readFileSync(join(ROOT, 'docs/extending.md'), 'utf8')) ?? [];
  return module;
}

suite('the API page in a browser', () => {
  let service: StartedService;
  let browser: Browser;
  let page: Page;
  const faults: string[] = [];
  beforeAll(async () => {
    if (chromiumMissing) throw new Error(chromiumMissing);
    mkdirSync(PICTURES, { recursive: true });
    service = await startService({ WAYBILL_EXTENSIONS: extensionToTry() });
    browser = await launchChromium();
    page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    page.setDefaultTimeout(HANG_MS);
    page.on('pageerror', (error) => faults.push(error.message));
    page.on('console', (message) => {
      const isAnswer = message.text().includes('the server responded with a status of 4');
      if (message.type() === 'error' && !isAnswer) faults.push(message.text());
    });
    // What people type: it leads to /docs.
    await page.goto(service.baseUrl);
    await page.waitForSelector('.opblock');
  });
  afterAll(async () => {
    await browser?.close();
    await service?.stop();
  });

  const picture = (name: string) => page.screenshot({ path: join(PICTURES, `api-page-${name}.png`) });
  const operation = (id: string) => page.locator(`[id$="-${id}"].opblock`);
  const open = async (id: string) => {
    await operation(id).locator('.opblock-summary-control').click();
    await operation(id).locator('.execute').waitFor();
  };
  /** Sends what the form says. @returns status and body as the page shows them */
  const execute = async (id: string): Promise<{ status: string; body: string; curl: string }> => {
    const block = operation(id);
    const answered = page.waitForResponse((response) => response.url().includes('/v1/'));
    await block.locator('.execute').click();
    await answered;
    const shown = block.locator('.live-responses-table .response');
    await shown.waitFor();
    // The page draws the answer a moment after it has it.
    await page.waitForTimeout(500);
    return {
      status: (await shown.locator('.response-col_status').innerText()).trim().slice(0, 3),
      body: await shown.locator('.highlight-code').first().innerText(),
      curl: await block.locator('.curl-command').innerText(),
    };
  };

  it('lists every operation, those of an extension too', async () => {
    expect(new URL(page.url()).pathname).toBe('/docs');
    await picture('1-overview');
    const shown = await page.locator('.opblock-summary-path').allInnerTexts();
    expect(shown.length).toBeGreaterThan(14);
    expect(shown.map((path) => path.replaceAll('\u200b', ''))).toContain('/v1/orders/{id}/returns');
  });

  it('takes a demo key by Authorize', async () => {
    await page.locator('.btn.authorize').first().click();
    await page
      .locator('.auth-container input')
      .first()
      .fill(service.keys.operator ?? '');
    await picture('2-authorize');
    await page.locator('.auth-btn-wrapper .authorize').first().click();
    await page.locator('.btn-done').first().click();
    expect(await page.locator('.btn.authorize.locked').count()).toBe(1);
  });

  it('places the order that it shows as an example', async () => {
    await open('placeOrder');
    const { status, body, curl } = await execute('placeOrder');
    await operation('placeOrder').locator('.live-responses-table').scrollIntoViewIfNeeded();
    await picture('3-order-placed');
    expect(status).toBe('201');
    expect(body).toContain('"total": 3582');
    expect(curl).toMatch(/Idempotency-Key: (?!8e03978e)[0-9a-f-]{36}/);
  });

  it('shows the problem when the same order is placed again', async () => {
    const { status, body } = await execute('placeOrder');
    await operation('placeOrder').locator('.live-responses-table').scrollIntoViewIfNeeded();
    await picture('4-problem');
    expect([status, body]).toEqual(['409', expect.stringContaining('"code": "external-ref-taken"')]);
  });

  it('has a page for the problem', async () => {
    const reading = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    await reading.goto(`${service.baseUrl}/problems/external-ref-taken`);
    await reading.screenshot({ path: join(PICTURES, 'api-page-5-problem-explained.png') });
    expect(await reading.locator('h1').innerText()).toBe('External reference taken');
    await reading.close();
  });

  it('runs the TypeScript client as it is built, without a bundler', async () => {
    execFileSync(process.execPath, [join(ROOT, 'scripts/client.mjs')], { cwd: ROOT });
    const files: Record<string, string> = { 'openapi-fetch.mjs': 'node_modules/openapi-fetch/dist/index.mjs' };
    await page.route('**/client/*', (route) => {
      const name = new URL(route.request().url()).pathname.split('/').at(-1) ?? '';
      const body = readFileSync(join(ROOT, files[name] ?? `clients/typescript/dist/${name}`), 'utf8');
      return route.fulfill({ contentType: 'text/javascript', body });
    });
    await page.route('**/client-page', (route) => {
      const imports = { 'openapi-fetch': '/client/openapi-fetch.mjs' };
      const body = `<script type="importmap">${JSON.stringify({ imports })}</script>`;
      return route.fulfill({ contentType: 'text/html', body });
    });
    await page.goto(`${service.baseUrl}/client-page`);
    const total = await page.evaluate(
      async ([origin, token]) => {
        const { createWaybillClient } = await import(String('/client/index.js'));
        const { api, unwrap } = createWaybillClient({ baseUrl: origin, token });
        const body = {
          channel: 'browser',
          currency: 'EUR',
          customer: { ref: 'c-1' },
          lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 5 }],
        };
        return (await unwrap(api.POST('/v1/orders', { body }))).total as number;
      },
      [service.baseUrl, service.keys.operator ?? ''] as const,
    );
    expect(total).toBe(5);
  });

  it('had no fault in its console', () => {
    expect(faults).toEqual([]);
  });
});
