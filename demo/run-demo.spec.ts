import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeOrderService } from '../test/support/fake-order-service.js';
import { runDemo, type DemoOptions } from './run-demo.js';

const SAMPLE = join(import.meta.dirname, '../test/fixtures/sample-orders.ndjson');
const SAMPLE_STEPS = 21;

let service: FakeOrderService;
let folder: string;
let stop: AbortController;
let printed: { out: string; err: string };

beforeEach(async () => {
  service = await FakeOrderService.start();
  folder = await mkdtemp(join(tmpdir(), 'waybill-demo-'));
  stop = new AbortController();
  const demo = { baseUrl: service.url, tenants: [{ id: '1', slug: 'demo', keys: { admin: 'a', operator: 'secret' } }] };
  await writeFile(join(folder, 'demo.json'), JSON.stringify(demo));
});

afterEach(async () => {
  await service.close();
  await rm(folder, { recursive: true });
});

async function run(options: Partial<DemoOptions> = {}): Promise<number> {
  printed = { out: '', err: '' };
  stop = new AbortController();
  return runDemo(
    { from: SAMPLE, seed: 1, concurrency: 8, dataDir: folder, ...options },
    {
      stdout: { write: (text) => (printed.out += text) },
      stderr: { write: (text) => (printed.err += text) },
      stop: stop.signal,
      abort: new AbortController().signal,
      backOffMs: 1,
    },
  );
}

function printedNumber(label: string): number {
  return Number(new RegExp(`^  ${label} +([\\d,]+)`, 'm').exec(printed.out)?.[1]?.replaceAll(',', ''));
}

function expectSampleStates(): void {
  const states = Object.fromEntries(
    ['delivered', 'shipped', 'confirmed', 'pending', 'canceled'].map((s) => [s, printedNumber(s)]),
  );
  expect(states).toEqual({ delivered: 4, shipped: 2, confirmed: 2, pending: 2, canceled: 2 });
  expect([printedNumber('orders'), printedNumber('lines')]).toEqual([12, 17]);
}

const behaviours = [
  ['that replays idempotency keys', true],
  ['that ignores idempotency keys', false],
] as const;

describe.each(behaviours)('a service %s', (_what, replays) => {
  beforeEach(() => {
    service.replays = replays;
  });

  it('gets all orders and steps, and the run tells what the service holds', async () => {
    expect(await run()).toBe(0);
    expectSampleStates();
    expect(printedNumber('orders placed')).toBe(12);
    expect(printedNumber('steps moved')).toBe(SAMPLE_STEPS);
    expect(printed.out).toMatch(/total JPY +10,\d{3} {2}= 10,\d{3} JPY/);
    expect(printed.out).toMatch(/total KWD +14,500 {2}= 14\.500 KWD/);
    expect([...service.orders.values()].find((order) => order.externalRef === 'S-1010')?.reasons).toEqual([
      'ordered 20 instead of 2',
    ]);
  });

  it('does nothing a second time', async () => {
    await run();
    const writes = service.effects;
    expect(await run()).toBe(0);
    expect(service.effects).toBe(writes);
    expectSampleStates();
    expect(printedNumber('orders placed') + printedNumber('steps moved')).toBe(0);
    expect([printedNumber('already there'), printedNumber('already moved')]).toEqual([12, SAMPLE_STEPS]);
  });

  it('goes on after a run that was stopped in the middle', async () => {
    service.beforeEffect = () => {
      if (service.effects === 11) stop.abort();
    };
    expect(await run({ concurrency: 3 })).toBe(130);
    expect(printed.err).toMatch(/Stopped after \d+ of 12\..*Run the same command again to go on/s);
    expect(service.effects).toBeLessThan(12 + SAMPLE_STEPS);
    service.beforeEffect = () => {};
    expect(await run()).toBe(0);
    expectSampleStates();
    expect(service.effects).toBe(12 + SAMPLE_STEPS);
  });

  it('goes on after a service that died between effect and answer', async () => {
    service.dropAnswer = () => service.effects >= 9;
    expect(await run({ concurrency: 2 })).toBe(1);
    expect(printed.err).toMatch(/no connection to .*Run the same command again/s);
    service.dropAnswer = () => false;
    expect(await run()).toBe(0);
    expectSampleStates();
    expect(service.effects).toBe(12 + SAMPLE_STEPS);
  });

  it('tries again after 503, 429 and a lost answer', async () => {
    let requests = 0;
    service.refuse = () => [undefined, 503, undefined, 429][(requests += 1) % 4];
    service.dropAnswer = () => requests % 5 === 0;
    // One at a time, so that the faults fall the same way on every run.
    expect(await run({ concurrency: 1 })).toBe(0);
    expectSampleStates();
    expect(service.effects).toBe(12 + SAMPLE_STEPS);
  });

  it('accepts an order that somebody moved on, and names one that went another way', async () => {
    await run();
    service.find('S-1006').move('shipped');
    expect(await run()).toBe(0);
    service.find('S-1008').move('canceled');
    service.find('S-1006').states = ['canceled'];
    expect(await run()).toBe(1);
    expect(printed.err).toMatch(/FAILED line 6: order .* went another way: canceled instead of confirmed/);
    expect(printed.out).toContain('By state');
  });
});

describe('playing orders', () => {
  it('takes a step again whose refusal was kept under the key but is out of date', async () => {
    service.refuseTransitions = true;
    expect(await run()).toBe(1);
    expect(printed.err).toMatch(/FAILED line 1: the step to confirmed was answered 409 guard-refused/);
    expect(printed.err).toContain('9 more failed; the first is shown.');
    service.refuseTransitions = false;
    expect(await run()).toBe(0);
    expectSampleStates();
  });

  it('refuses an order of the same reference with another total', async () => {
    service.replays = false;
    await run();
    service.find('S-1003').total += 1;
    expect(await run()).toBe(1);
    expect(printed.err).toMatch(
      /FAILED line 3: sample already has another order S-1003: its total is 3413, not 3412\./,
    );
  });

  it('invents orders that are the same on the next run, and more of them on a longer one', async () => {
    expect(await run({ from: undefined, orders: 40 })).toBe(0);
    expect(await run({ from: undefined, orders: 60 })).toBe(0);
    expect([printedNumber('orders placed'), printedNumber('already there')]).toEqual([20, 40]);
    expect(new Set([...service.orders.values()].map(({ currency }) => currency)).size).toBeGreaterThan(4);
    expect(new Set([...service.orders.values()].map(({ state }) => state)).size).toBe(5);
  });

  it.each([
    ['a wrong key', { apiKey: 'wrong' }, /refuses the API key: unauthenticated/],
    [
      'no service',
      { baseUrl: 'http://127.0.0.1:9' },
      /no connection to http:\/\/127\.0\.0\.1:9 .*"npm start" starts it/s,
    ],
    ['no demo.json', { dataDir: '/nowhere' }, /no \/nowhere\/demo\.json: start the service with "npm start"/],
    ['no file', { from: '/nowhere.ndjson' }, /Can't read \/nowhere\.ndjson/],
  ])('says what to do about %s', async (_what, options, message) => {
    expect(await run(options)).toBe(1);
    expect(printed.err).toMatch(message);
    expect(service.effects).toBe(0);
  });

  it('names the line that is not a recorded order, before anything is sent', async () => {
    const file = join(folder, 'broken.ndjson');
    await writeFile(file, '{"order":{},"steps":[]}\n\n{"order":{},"steps":[{"reason":"x"}]}\n');
    expect(await run({ from: file })).toBe(1);
    expect(printed.err).toMatch(/broken\.ndjson, line 3: the step {"reason":"x"} should be/);
    expect(service.effects).toBe(0);
  });
});
