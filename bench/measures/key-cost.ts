import { join } from 'node:path';
import { alternate } from '../load/alternate.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import { httpSide } from '../load/sides.js';
import { cpuEach, describe, ratios } from '../report/row.js';
import { ROOT } from '../world/folders.js';
import { startArguments, startService } from '../world/service.js';
import type { Measure } from './measure.js';

/** What a key adds to a create: the same process serves the route once more without one. */
export const keyCost: Measure = {
  name: 'key-cost',
  run: async (bench) => {
    const { server } = bench;
    const database = await server.createDatabase('bench_keys');
    const service = await startService(database, { program: startArguments(join(ROOT, 'bench/service/unkeyed.mjs')) });
    const headers = authorization(database.tenant.keys.operator);
    const requests = (path: string) => (seconds: number) =>
      createRequests(Math.ceil(seconds * MOST_PER_SECOND), headers, path);
    try {
      const [keyed = [], unkeyed = []] = await alternate(bench, [
        httpSide(bench, 'with a key', service, requests('/v1/orders')),
        httpSide(bench, 'without', service, requests('/bench/orders')),
      ]);
      return [
        {
          measure: 'idempotency: CPU seconds a create with key',
          against: 'without key',
          figures: ratios(keyed, unkeyed, cpuEach),
          unit: '×',
          goal: { atMost: 1.25 },
          details: { 'with key': describe(keyed), 'without key': describe(unkeyed) },
        },
      ];
    } finally {
      await service.stop();
      await server.dropDatabase('bench_keys');
    }
  },
};
