import { alternate } from '../load/alternate.js';
import { checkWrites } from '../load/checks.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import { counted, httpSide, repeatedSide } from '../load/sides.js';
import { describe, ratios, throughput } from '../report/row.js';
import { startService } from '../world/service.js';
import type { Measure } from './measure.js';

const KEYS = 240;

/** A finished key, asked for again. */
export const replay: Measure = {
  name: 'replay',
  run: async (bench) => {
    const { server } = bench;
    const database = await server.createDatabase('bench_replay');
    const service = await startService(database);
    const headers = authorization(database.tenant.keys.operator);
    const finished = createRequests(KEYS, headers);
    for (const { path, body, headers: own } of finished) {
      const answer = await fetch(service.baseUrl + path, { method: 'POST', headers: own, body });
      if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${await answer.text()}`);
    }
    const creates = counted(
      httpSide(bench, 'create', service, (seconds) => createRequests(Math.ceil(seconds * MOST_PER_SECOND), headers)),
    );
    try {
      const sides = [repeatedSide(bench, 'replay', service, finished), creates.side];
      const [replays = [], created = []] = await alternate(bench, sides);
      await checkWrites(database, creates.total() + KEYS);
      return [
        {
          measure: 'replay of a finished key',
          against: 'create over HTTP',
          figures: ratios(replays, created, throughput),
          unit: '×',
          goal: { atLeast: 4 },
          details: { replay: describe(replays), create: describe(created) },
        },
      ];
    } finally {
      await service.stop();
      await server.dropDatabase('bench_replay');
    }
  },
};
