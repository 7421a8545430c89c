import { alternate, type Side } from '../load/alternate.js';
import { checkWrites } from '../load/checks.js';
import { driveHttp } from '../load/http.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import type { Sample } from '../load/sample.js';
import { cpuEach, describe, ratios } from '../report/row.js';
import { type BenchService, startService } from '../world/service.js';
import type { Measure } from './measure.js';

/** Two service processes on one database, each with half of the clients, against one with all of them. */
export const processes: Measure = {
  name: 'processes',
  run: async (bench) => {
    const { server, options } = bench;
    const database = await server.createDatabase('bench_processes');
    const services = [await startService(database), await startService(database)];
    const headers = authorization(database.tenant.keys.operator);
    let placed = 0;
    const side = (name: string, used: BenchService[]): Side => ({
      name,
      run: async (seconds) => {
        const samples = await Promise.all(
          used.map(({ baseUrl }) =>
            driveHttp({
              baseUrl,
              connections: options.connections / used.length,
              seconds,
              requests: createRequests(Math.ceil((seconds * MOST_PER_SECOND) / used.length), headers),
              mayRepeat: false,
              service: used.map(({ pid }) => pid),
              postgres: server.postmaster,
            }),
          ),
        );
        const all = together(samples);
        placed += all.count;
        return all;
      },
    });
    try {
      const sides = [side('two processes', services), side('one process', services.slice(0, 1))];
      const [two = [], one = []] = await alternate(bench, sides);
      await checkWrites(database, placed);
      return [
        {
          measure: 'CPU seconds a create with two service processes',
          against: 'with one',
          figures: ratios(two, one, cpuEach),
          unit: '×',
          goal: null,
          details: { two: describe(two), one: describe(one) },
        },
      ];
    } finally {
      for (const service of services) await service.stop();
      await server.dropDatabase('bench_processes');
    }
  },
};

/** Each counted the CPU of all processes against its own requests. */
function together(samples: Sample[]): Sample {
  const count = samples.reduce((sum, sample) => sum + sample.count, 0);
  const perSecond = samples.reduce((sum, sample) => sum + sample.perSecond, 0);
  const shared = (group: keyof Sample['cpu']): number =>
    samples.reduce((sum, sample) => sum + sample.cpu[group] * sample.count, 0) / samples.length / count;
  return {
    count,
    perSecond,
    cpu: { service: shared('service'), postgres: shared('postgres'), load: shared('load') * samples.length },
  };
}
