import { alternate } from '../load/alternate.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import { httpSide, sqlSide } from '../load/sides.js';
import { makeSqlScripts } from '../load/sql-functions.js';
import { cpuEach, describe, format, median, ratios, type Row, throughput } from '../report/row.js';
import { query } from '../world/server.js';
import { startService } from '../world/service.js';
import type { Measure } from './measure.js';

const MANY_CLIENTS = 64;

/** What the event trigger adds to a create, and whether it costs more the more clients there are. */
export const auditCost: Measure = {
  name: 'audit-cost',
  run: async (bench): Promise<Row[]> => {
    const { server } = bench;
    const audited = await server.createDatabase('bench_audited');
    const silent = await server.createDatabase('bench_silent');
    await query(silent.superuserUrl, 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_50_event_insert');
    const both = [audited, silent];
    const services = [await startService(audited), await startService(silent)];
    const scripts = [await makeSqlScripts(audited), await makeSqlScripts(silent)];
    const names = ['with the event trigger', 'without'];
    const http = both.flatMap((database, index) => {
      const headers = authorization(database.tenant.keys.operator);
      const service = services[index];
      if (!service) return [];
      const requests = (seconds: number) => createRequests(Math.ceil(seconds * MOST_PER_SECOND), headers);
      return [httpSide(bench, `HTTP, ${names[index]}`, service, requests)];
    });
    const sql = [1, MANY_CLIENTS].flatMap((clients) =>
      both.map((database, index) =>
        sqlSide(
          bench,
          `pgbench, ${clients} clients, ${names[index]}`,
          database,
          scripts[index]?.createInOneCall ?? '',
          clients,
        ),
      ),
    );
    try {
      const [httpWith = [], httpWithout = [], oneWith = [], oneWithout = [], manyWith = [], manyWithout = []] =
        await alternate(bench, [...http, ...sql]);
      const growth = (many: typeof oneWith, one: typeof oneWith): number[] => ratios(many, one, throughput);
      const without = growth(manyWithout, oneWithout);
      return [
        {
          measure: 'audit: CPU seconds a create with the event trigger',
          against: 'without it',
          figures: ratios(httpWith, httpWithout, cpuEach),
          unit: '×',
          goal: { atMost: 1.6 },
          details: { with: describe(httpWith), without: describe(httpWithout) },
        },
        {
          measure: `audit: throughput from 1 to ${MANY_CLIENTS} clients with the event trigger`,
          against: "PostgreSQL's own, without it",
          figures: growth(manyWith, oneWith).map((figure, round) => figure / (without[round] ?? figure)),
          unit: '×',
          goal: { atLeast: 0.95 },
          details: {
            'with, 1 client': describe(oneWith),
            'with, many': describe(manyWith),
            'without, 1 client': describe(oneWithout),
            'without, many': `${describe(manyWithout)}; grows ${format(median(without))} ×`,
          },
        },
      ];
    } finally {
      for (const service of services) await service.stop();
      for (const { name } of both) await server.dropDatabase(name);
    }
  },
};
