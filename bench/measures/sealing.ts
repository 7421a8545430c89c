import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkWrites } from '../load/checks.js';
import { driveHttp } from '../load/http.js';
import { authorization, createRequests, MOST_PER_SECOND } from '../load/orders.js';
import { format, type Row } from '../report/row.js';
import { query } from '../world/server.js';
import { startService } from '../world/service.js';
import { sealingSettings } from '../world/signing-key.js';
import type { Measure } from './measure.js';

const LOOK_EVERY_MS = 250;
/** The load lasts this many turns, so that a growing backlog has time to show. */
const TURNS = 3;

/** Whether sealing keeps up with creates at full load, in the very process that serves them. */
export const sealing: Measure = {
  name: 'sealing',
  run: async (bench): Promise<Row[]> => {
    const { server, options, say } = bench;
    const database = await server.createDatabase('bench_sealing');
    const folder = await mkdtemp(join(tmpdir(), 'waybill-checkpoints-'));
    const service = await startService(database, { env: sealingSettings(folder) });
    const headers = authorization(database.tenant.keys.operator);
    const drive = (seconds: number) =>
      driveHttp({
        baseUrl: service.baseUrl,
        connections: options.connections,
        seconds,
        requests: createRequests(Math.ceil(seconds * MOST_PER_SECOND), headers),
        mayRepeat: false,
        service: [service.pid],
        postgres: server.postmaster,
      });
    try {
      say('warming up');
      const warm = await drive(options.warmSeconds);
      const backlogs: number[] = [];
      const load = new AbortController();
      const watch = (async () => {
        while (!load.signal.aborted) {
          backlogs.push(await queued(database.superuserUrl));
          await sleep(LOOK_EVERY_MS);
        }
      })();
      say('creates at full load, with sealing');
      const sample = await drive(options.seconds * TURNS);
      load.abort();
      await watch;
      const ended = performance.now();
      while ((await queued(database.superuserUrl)) > 0) await sleep(20);
      const drained = (performance.now() - ended) / 1000;
      await checkWrites(database, warm.count + sample.count);
      await checkSealed(database.superuserUrl);
      const late = backlogs.slice(Math.floor(backlogs.length / 2));
      return [
        {
          measure: 'sealing at full load: largest backlog, as seconds of creates',
          against: '',
          figures: [Math.max(...backlogs) / sample.perSecond],
          unit: 's',
          goal: { atMost: 3 },
          details: {
            creates: `${format(sample.perSecond)}/s with sealing in the same process`,
            'backlog over time': `${format(backlogs[0] ?? 0)} at first, at most ${format(Math.max(...backlogs))}, in the second half ${format(Math.min(...late))} to ${format(Math.max(...late))} events`,
          },
        },
        {
          measure: 'sealing: time from the end of the load to an empty queue',
          against: '',
          figures: [drained],
          unit: 's',
          goal: { atMost: 3 },
          details: {},
        },
      ];
    } finally {
      await service.stop();
      await server.dropDatabase('bench_sealing');
      await rm(folder, { recursive: true });
    }
  },
};

export async function queued(url: string): Promise<number> {
  const [row] = await query<{ count: string }>(url, 'SELECT count(*) AS count FROM audit.queue');
  return Number(row?.count);
}

async function checkSealed(url: string): Promise<void> {
  const [row] = await query<{ events: string; leaves: string }>(
    url,
    'SELECT (SELECT count(*) FROM audit.events) AS events, (SELECT count(*) FROM audit.leaves) AS leaves',
  );
  if (row?.events !== row?.leaves) throw new Error(`${row?.leaves} of ${row?.events} events are sealed`);
}
