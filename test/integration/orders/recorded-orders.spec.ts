import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { runDemo } from '../../../demo/run-demo.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { rows } from '../../support/sql.js';

const ROOT = join(import.meta.dirname, '../../..');
const NORTHWIND = join(ROOT, '../shared/data/northwind-orders.ndjson');
const recording = existsSync(NORTHWIND)
  ? {
      from: NORTHWIND,
      stopAfter: 200,
      orders: 830,
      lines: 2_155,
      totals: { USD: 133_073_545 },
      states: { delivered: 793, shipped: 16, confirmed: 21 },
    }
  : {
      from: join(ROOT, 'test/fixtures/sample-orders.ndjson'),
      stopAfter: 4,
      orders: 12,
      lines: 17,
      totals: null,
      states: { delivered: 4, shipped: 2, confirmed: 2, pending: 2, canceled: 2 },
    };

describe(`the recorded orders of ${recording.from.slice(recording.from.lastIndexOf('/') + 1)}`, () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  /** Plays the file; stops after so many finished orders, as ctrl-C does. */
  async function play(stopAfter?: number): Promise<{ code: number; out: string; err: string }> {
    const stop = new AbortController();
    const printed = { out: '', err: '' };
    const look = async (): Promise<void> => {
      const [row] = await rows<{ count: number }>(
        service.database.superuserUrl,
        'SELECT count(*)::int FROM waybill.orders',
      );
      if ((row?.count ?? 0) >= (stopAfter ?? Infinity)) stop.abort();
    };
    const watch = stopAfter === undefined ? undefined : setInterval(() => void look(), 10);
    try {
      const code = await runDemo(
        {
          from: recording.from,
          seed: 1,
          concurrency: stopAfter === undefined ? 8 : 2,
          baseUrl: service.baseUrl,
          apiKey: service.tenants[0].keys.operator,
          dataDir: '/nonexistent',
        },
        {
          stdout: { write: (text) => (printed.out += text) },
          stderr: { write: (text) => (printed.err += text) },
          stop: stop.signal,
          abort: new AbortController().signal,
          backOffMs: 10,
        },
      );
      return { code, ...printed };
    } finally {
      clearInterval(watch);
    }
  }

  async function stored() {
    const [sums] = await rows<Record<'orders' | 'lines' | 'changes' | 'events' | 'streams', number>>(
      service.database.superuserUrl,
      `SELECT (SELECT count(*)::int FROM waybill.orders) AS orders, (SELECT count(*)::int FROM waybill.order_lines) AS lines,
              (SELECT count(*)::int FROM waybill.order_status_history) AS changes,
              (SELECT count(*)::int FROM audit.events WHERE stream LIKE 'order/%') AS events,
              (SELECT count(DISTINCT stream)::int FROM audit.events WHERE stream LIKE 'order/%') AS streams`,
    );
    const totals = await rows<{ currency: string; total: string }>(
      service.database.superuserUrl,
      'SELECT currency, sum(total) AS total FROM waybill.orders GROUP BY currency',
    );
    const states = await rows<{ status: string; count: number }>(
      service.database.superuserUrl,
      'SELECT status, count(*)::int FROM waybill.orders GROUP BY status',
    );
    if (!sums) throw new Error('no sums');
    return {
      ...sums,
      totals: Object.fromEntries(totals.map(({ currency, total }) => [currency, Number(total)])),
      states: Object.fromEntries(states.map(({ status, count }) => [status, count])),
    };
  }

  it('stopped in the middle and run again end where one run would', async () => {
    const first = await play(recording.stopAfter);
    const half = await stored();
    expect(first.err).toContain('Run the same command again to go on');
    expect(first.code).toBe(130);
    expect(half.orders).toBeLessThan(recording.orders);

    const second = await play();
    expect(second.err).not.toContain('FAILED');
    expect(second.code).toBe(0);
    const whole = await stored();
    expect(whole).toMatchObject({ orders: recording.orders, lines: recording.lines, states: recording.states });
    if (recording.totals) expect(whole.totals).toEqual(recording.totals);
    // Nothing but placing and moving happened: a row of history is an event, and each order has its stream.
    expect(whole).toMatchObject({ streams: recording.orders, events: whole.changes });

    const printed = second.out.replaceAll(/ +/g, ' ');
    expect(printed).toContain(`orders ${recording.orders}`);
    if (recording.totals) expect(printed).toContain(`total USD ${recording.totals.USD.toLocaleString('en-US')}`);
  });

  it('can all be listed, page by page', async () => {
    const seen = new Set<string>();
    let cursor: string | null = '';
    while (cursor !== null) {
      const page: { body: { data: { id: string }[]; next: string | null } } = await service
        .as('viewer')
        .get(`/v1/orders?limit=200${cursor ? `&cursor=${cursor}` : ''}`);
      for (const { id } of page.body.data) seen.add(id);
      cursor = page.body.next;
    }
    expect(seen.size).toBe(recording.orders);
  });
});
