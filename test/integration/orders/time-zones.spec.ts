import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order } from '../../support/builders.js';
import { move, placeIn, read } from '../../support/orders.js';
import { type ServiceProcess, startServiceProcess } from '../../support/service-process.js';
import { rows } from '../../support/sql.js';

/** Around the hours that Berlin skipped and had twice, and Mexico City's last change of all. */
const INSTANTS = [
  '2022-10-30T06:59:59.999999Z',
  '2022-10-30T07:00:00.000000Z',
  '2026-03-29T00:59:59.999999Z',
  '2026-03-29T01:00:00.000000Z',
  '2026-03-29T01:30:00.000001Z',
  '2026-10-25T00:30:00.000001Z',
  '2026-10-25T01:30:00.000001Z',
];

/** What each process prints first: minutes west of UTC on the first of July. */
const SAY_OFFSET = `console.log('offset', new Date('2026-07-01T12:00:00Z').getTimezoneOffset())`;

describe('fault 15: instants are the same in every time zone', () => {
  let utc: TestApp;
  const zones: (ServiceProcess & { zone: string })[] = [];
  const orders: Order[] = [];
  beforeAll(async () => {
    utc = await startTestApp();
    for (const at of INSTANTS) {
      const order = await placeIn(utc.as('operator'), 'confirmed', { externalRef: at });
      await rows(
        utc.database.superuserUrl,
        `SET session_replication_role = replica; UPDATE waybill.orders SET placed_at = '${at}', updated_at = '${at}' WHERE id = '${order.id}';
         ALTER TABLE waybill.order_status_history DISABLE TRIGGER order_status_history_00_refused;
         UPDATE waybill.order_status_history SET changed_at = '${at}' WHERE order_id = '${order.id}'`,
      );
      orders.push(await read(utc.as('operator'), order.id));
    }
    // The server's own zone must not matter either.
    await rows(utc.database.superuserUrl, `ALTER DATABASE ${utc.database.name} SET timezone = 'Asia/Kathmandu'`);
    const started = ['America/Mexico_City', 'Europe/Berlin'].map(async (zone) => ({
      ...(await startServiceProcess({
        databaseUrl: utc.database.appUrl,
        env: { TZ: zone, PGTZ: zone, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(SAY_OFFSET)}` },
      })),
      zone,
    }));
    zones.push(...(await Promise.all(started)));
  });
  afterAll(async () => {
    await Promise.all(zones.map(({ kill }) => kill('SIGTERM', 10_000)));
    await utc.close();
  });

  const clients = () => zones.map(({ baseUrl }) => new ApiClient(baseUrl, utc.tenants[0].keys.operator));

  it('the processes really run in other zones', () => {
    expect(zones.map(({ zone, output }) => [zone, /offset (-?\d+)/.exec(output())?.[1]])).toEqual([
      ['America/Mexico_City', '360'],
      ['Europe/Berlin', '-120'],
    ]);
  });

  it('in what was stored', async () => {
    expect(orders.map(({ placedAt }) => placedAt)).toEqual(INSTANTS);
    for (const client of clients()) {
      for (const order of orders) {
        expect(await read(client, order.id)).toEqual(order);
        const history = await client.get<{ data: { changedAt: string }[] }>(`/v1/orders/${order.id}/history`);
        expect(history.body.data.map(({ changedAt }) => changedAt)).toEqual([order.placedAt, order.placedAt]);
        for (const path of ['events', 'versions', 'history']) {
          const [there, here] = await Promise.all(
            [client, utc.as('viewer')].map((one) => one.get(`/v1/orders/${order.id}/${path}`)),
          );
          expect(there?.body).toEqual(here?.body);
        }
      }
    }
  });

  it('in lists: filters, sort and cursors, across changes to and from daylight saving', async () => {
    for (const client of clients()) {
      const seen: string[] = [];
      for (let cursor: string | null = ''; cursor !== null;) {
        const page: { body: { data: Order[]; next: string | null } } = await client.get(
          `/v1/orders?sort=placedAt&limit=1${cursor ? `&cursor=${cursor}` : ''}`,
        );
        seen.push(...page.body.data.map(({ placedAt }) => placedAt));
        cursor = page.body.next;
      }
      expect(seen).toEqual(INSTANTS);
      const within = async (from: string, before: string) =>
        (
          await client.get<{ data: Order[] }>(
            `/v1/orders?sort=placedAt&placedAt[gte]=${encodeURIComponent(from)}&placedAt[lt]=${encodeURIComponent(before)}`,
          )
        ).body.data.map(({ placedAt }) => placedAt);
      expect(await within('2026-03-29T02:00:00+01:00', '2026-03-29T03:30:00.000001+02:00')).toEqual([INSTANTS[3]]);
      expect(await within('2026-10-25T02:30:00.000001+02:00', '2026-10-25T02:30:00.000001+01:00')).toEqual([
        INSTANTS[5],
      ]);
    }
  });

  it('in what is written there and read here', async () => {
    for (const client of clients()) {
      const order = await placeIn(client, 'confirmed');
      expect(Math.abs(Date.parse(order.updatedAt) - Date.now())).toBeLessThan(60_000);
      const shipped = (await move(client, order.id, 'shipped')).body;
      expect(await read(utc.as('viewer'), order.id)).toEqual(shipped);
      for (const reader of [client, utc.as('viewer')]) {
        expect(await read(reader, order.id, `?asOf=${order.updatedAt}`)).toEqual(order);
        expect(await read(reader, order.id, `?asOf=${shipped.updatedAt}`)).toEqual(shipped);
      }
      const events = await utc
        .as('viewer')
        .get<{ data: { body: string; occurredAt: string }[] }>(`/v1/orders/${order.id}/events`);
      for (const { body, occurredAt } of events.body.data) {
        expect((JSON.parse(body) as { snapshot: Order }).snapshot.updatedAt).toBe(occurredAt);
      }
    }
  });

  it('in the unit tests too', async () => {
    const root = join(import.meta.dirname, '../../..');
    const jest = ['--experimental-vm-modules', join(root, 'node_modules/jest/bin/jest.js'), '--selectProjects', 'unit'];
    const files = ['--testPathPatterns', 'timestamp', 'cursor'];
    const run = promisify(execFile)(process.execPath, [...jest, ...files], {
      cwd: root,
      env: { PATH: process.env.PATH, TZ: 'America/Mexico_City' },
    });
    const { stderr } = await run;
    expect(stderr).toMatch(/Tests: +\d+ passed, \d+ total/);
  });
});
