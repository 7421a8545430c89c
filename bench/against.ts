import { join, resolve } from 'node:path';
import { generateOrders } from './generate/orders.js';
import { alternate } from './load/alternate.js';
import { authorization, createRequests, MOST_PER_SECOND } from './load/orders.js';
import { httpSide, repeatedSide } from './load/sides.js';
import type { Bench, Measure } from './measures/measure.js';
import { cpuEach, describe, ratios, type Row, throughput } from './report/row.js';
import { query } from './world/server.js';
import { startArguments, startService } from './world/service.js';

const ORDERS = 2_000;

/**
 * Two builds of the service on one database, each migrated to by this one's migrations: what a change brings. The same
 * creates, reads and lists in turns, as throughput and as CPU.
 */
export const against: Measure = { name: 'this build and another', run: compareBuilds };

async function compareBuilds(bench: Bench): Promise<Row[]> {
  const { server, options } = bench;
  const database = await server.createDatabase('bench_against');
  await generateOrders(database, { from: 1, to: ORDERS, mixed: true }, bench.say);
  const orders = await query<{ id: string }>(database.superuserUrl, 'SELECT id FROM waybill.orders LIMIT 240');
  const here = await startService(database);
  const there = await startService(database, {
    program: startArguments(join(resolve(options.against), 'dist/src/main.js')),
  });
  const headers = authorization(database.tenant.keys.operator);
  const kinds = {
    create: (name: string, service: typeof here) =>
      httpSide(bench, name, service, (seconds) => createRequests(Math.ceil(seconds * MOST_PER_SECOND), headers)),
    'read one': (name: string, service: typeof here) =>
      repeatedSide(
        bench,
        name,
        service,
        orders.map(({ id }) => ({ method: 'GET', path: `/v1/orders/${id}`, headers })),
      ),
    'list of 50': (name: string, service: typeof here) =>
      repeatedSide(
        bench,
        name,
        service,
        orders.map(() => ({ method: 'GET', path: '/v1/orders?limit=50', headers })),
      ),
  };
  try {
    const rows: Row[] = [];
    for (const [kind, side] of Object.entries(kinds)) {
      const sides = [side(`${kind}, this build`, here), side(`${kind}, the other`, there)];
      const [ours = [], theirs = []] = await alternate(bench, sides);
      const details = { this: describe(ours), other: describe(theirs) };
      const common = { against: options.against, unit: '×', goal: null, details };
      rows.push(
        { ...common, measure: `${kind}: throughput`, figures: ratios(ours, theirs, throughput) },
        { ...common, measure: `${kind}: CPU each`, figures: ratios(ours, theirs, cpuEach) },
      );
    }
    return rows;
  } finally {
    await here.stop();
    await there.stop();
    await server.dropDatabase('bench_against');
  }
}
