import { generateOrders } from '../generate/orders.js';
import { alternate } from '../load/alternate.js';
import { authorization } from '../load/orders.js';
import { repeatedSide, sqlSide } from '../load/sides.js';
import { makeSqlScripts } from '../load/sql-functions.js';
import { describe, ratios, type Row, throughput } from '../report/row.js';
import { query } from '../world/server.js';
import { startService } from '../world/service.js';
import type { Measure } from './measure.js';

const ORDERS = 10_000;

/** One order, and a page of fifty, under row level security. */
export const read: Measure = {
  name: 'read',
  run: async (bench) => {
    const { server, options } = bench;
    const database = await server.createDatabase('bench_read');
    const scripts = await makeSqlScripts(database);
    await generateOrders(database, { from: 1, to: options.quick ? 1_000 : ORDERS, mixed: true }, bench.say);
    const orders = await query<{ id: string }>(
      database.superuserUrl,
      `INSERT INTO bench.todo (n, id) SELECT row_number() OVER (ORDER BY id), id FROM waybill.orders ORDER BY id LIMIT 240
       RETURNING id`,
    );
    const service = await startService(database);
    const headers = authorization(database.tenant.keys.viewer);
    const get = (path: string) => ({ method: 'GET', path, headers });
    try {
      const [one = [], oneSql = [], list = [], listSql = []] = await alternate(bench, [
        repeatedSide(
          bench,
          'read one over HTTP',
          service,
          orders.map(({ id }) => get(`/v1/orders/${id}`)),
        ),
        sqlSide(bench, 'read one with pgbench', database, scripts.readOne),
        repeatedSide(
          bench,
          'list of 50 over HTTP',
          service,
          Array.from({ length: options.connections }, () => get('/v1/orders?limit=50')),
        ),
        sqlSide(bench, 'list of 50 with pgbench', database, scripts.list),
      ]);
      const row = (measure: string, http: typeof one, sql: typeof one): Row => ({
        measure,
        against: 'pgbench with the same statements as the app role, context included',
        figures: ratios(http, sql, throughput),
        unit: '×',
        goal: { atLeast: 0.5 },
        details: { HTTP: describe(http), pgbench: describe(sql) },
      });
      return [row('read one order, under RLS', one, oneSql), row('list of 50, under RLS', list, listSql)];
    } finally {
      await service.stop();
      await server.dropDatabase('bench_read');
    }
  },
};
