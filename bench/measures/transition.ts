import { randomUUID } from 'node:crypto';
import { generateOrders } from '../generate/orders.js';
import { alternate } from '../load/alternate.js';
import { checkChain } from '../load/checks.js';
import { authorization } from '../load/orders.js';
import { counted, httpSide, sqlSide } from '../load/sides.js';
import { makeSqlScripts } from '../load/sql-functions.js';
import { describe, ratios, throughput } from '../report/row.js';
import { query } from '../world/server.js';
import { startService } from '../world/service.js';
import type { Measure } from './measure.js';

/** Orders are made for so many steps a second, on each side. */
const MOST_BY_HTTP = 3_000;
const MOST_BY_SQL = 5_000;
/** Each step uses an order up, so turns are shorter than elsewhere. */
const LONGEST_TURN = 6;

/** One step of an order, pending to confirmed. */
export const transition: Measure = {
  name: 'transition',
  run: async (bench) => {
    const { server, options } = bench;
    const turns = { ...options, seconds: Math.min(options.seconds, LONGEST_TURN) };
    const database = await server.createDatabase('bench_transition');
    const scripts = await makeSqlScripts(database);
    // pgbench takes whole seconds.
    const seconds = Math.ceil(turns.warmSeconds) + turns.rounds * Math.ceil(turns.seconds) + 1;
    const [bySql, byHttp] = [seconds * MOST_BY_SQL, seconds * MOST_BY_HTTP];
    await generateOrders(database, { from: 1, to: bySql + byHttp, mixed: false }, bench.say);
    const ids = await query<{ id: string }>(
      database.superuserUrl,
      `INSERT INTO bench.todo (n, id) SELECT row_number() OVER (ORDER BY id), id FROM waybill.orders RETURNING id`,
    );
    const forHttp = ids.slice(bySql);
    const service = await startService(database);
    const headers = authorization(database.tenant.keys.operator);
    const body = JSON.stringify({ to: 'confirmed' });
    const requests = (turn: number) =>
      forHttp.splice(0, Math.ceil(turn * MOST_BY_HTTP)).map(({ id }) => ({
        method: 'POST',
        path: `/v1/orders/${id}/transitions`,
        headers: { ...headers, 'idempotency-key': randomUUID() },
        body,
      }));
    const sides = [
      counted(httpSide(bench, 'HTTP', service, requests)),
      counted(sqlSide(bench, 'pgbench', database, scripts.transition)),
    ];
    try {
      const [http = [], sql = []] = await alternate(
        { ...bench, options: turns },
        sides.map(({ side }) => side),
      );
      bench.say('checking states and hashes');
      await check(database.superuserUrl, sides[0]?.total() ?? 0, sides[1]?.total() ?? 0);
      await checkChain(database);
      return [
        {
          measure: 'transition over HTTP',
          against: `pgbench, the same SQL as one function call, ${options.pgbenchClients} clients`,
          figures: ratios(http, sql, throughput),
          unit: '×',
          goal: { atLeast: 0.7 },
          details: { HTTP: describe(http), pgbench: describe(sql) },
        },
      ];
    } finally {
      await service.stop();
      await server.dropDatabase('bench_transition');
    }
  },
};

async function check(url: string, byHttp: number, bySql: number): Promise<void> {
  const [row] = await query<Record<'confirmed' | 'histories' | 'events', string>>(
    url,
    `SELECT (SELECT count(*) FROM waybill.orders WHERE status = 'confirmed' AND version = 2) AS confirmed,
            (SELECT count(*) FROM waybill.order_status_history WHERE to_status = 'confirmed') AS histories,
            (SELECT count(*) FROM audit.events WHERE type = 'order.confirmed') AS events`,
  );
  const [confirmed, histories, events] = [row?.confirmed, row?.histories, row?.events].map(Number);
  if (confirmed !== histories || confirmed !== events || (confirmed ?? 0) < byHttp + bySql) {
    throw new Error(`${byHttp + bySql} steps were answered; written: ${JSON.stringify(row)}`);
  }
}
