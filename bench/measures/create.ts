import { alternate } from '../load/alternate.js';
import { checkWrites } from '../load/checks.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import { counted, httpSide, sqlSide } from '../load/sides.js';
import { makeSqlScripts } from '../load/sql-functions.js';
import { describe, ratios, type Row, throughput } from '../report/row.js';
import { startService } from '../world/service.js';
import type { Measure } from './measure.js';
import { startPlain } from './plain-side.js';

const TITLE = 'create an order of 3 lines over HTTP: key, history, event, snapshot';

/** Creates: over HTTP, in SQL as one call and as several statements, and written plainly. */
export const create: Measure = {
  name: 'create',
  run: async (bench) => {
    const { options, server } = bench;
    const database = await server.createDatabase('bench_create');
    const scripts = await makeSqlScripts(database);
    const service = await startService(database);
    const plain = await startPlain(await server.createPlainDatabase('bench_plain'));
    const headers = authorization(database.tenant.keys.operator);
    const most = (seconds: number): number => Math.ceil(seconds * MOST_PER_SECOND);
    const ours = [
      counted(httpSide(bench, 'HTTP', service, (seconds) => createRequests(most(seconds), headers))),
      counted(sqlSide(bench, 'pgbench, one function call', database, scripts.createInOneCall)),
      counted(sqlSide(bench, 'pgbench, several statements', database, scripts.createInSeveral)),
    ];
    const plainly = httpSide(bench, 'written plainly', plain, (seconds) =>
      createRequests(most(seconds), authorization('plain'), '/orders'),
    );
    try {
      const sides = [...ours.map(({ side }) => side), plainly];
      const [http = [], ...others] = await alternate(bench, sides);
      bench.say('checking rows and hashes');
      await checkWrites(
        database,
        ours.reduce((sum, { total }) => sum + total(), 0),
      );
      const row = (against: string, index: number, atLeast: number): Row => ({
        measure: TITLE,
        against,
        figures: ratios(http, others[index] ?? [], throughput),
        unit: '×',
        goal: { atLeast },
        details: { HTTP: describe(http), [against]: describe(others[index] ?? []) },
      });
      return [
        row(`pgbench, the same SQL as one function call, ${options.pgbenchClients} clients`, 0, 0.65),
        row('pgbench, several statements in a transaction', 1, 1),
        row('the same route written plainly (Express, TypeORM `save()`)', 2, 6),
      ];
    } finally {
      await service.stop();
      await plain.stop();
      await server.dropDatabase('bench_create');
      await server.dropDatabase('bench_plain');
    }
  },
};
