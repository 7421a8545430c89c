import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../../../bench/report/row.js';
import { makeDemoTenants } from '../../../src/identity/index.js';
import { ApiClient } from '../../support/api-client.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { measureUntil } from '../../support/measuring.js';
import { type ServiceProcess, startServiceProcess } from '../../support/service-process.js';

const WRONG_KEYS_A_MINUTE = 10_000;
/** Quiet and flood take turns this often, so that whatever else the machine does meets both alike. */
const TURNS = 8;
const TURN_MS = 400;
const TOLERATED = 1.1;

describe('ten thousand wrong keys a minute from the address of a good client', () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let flood: ChildProcess;
  let client: ApiClient;
  beforeAll(async () => {
    database = await createTestDatabase();
    const [demo] = await makeDemoTenants(database.ownerUrl);
    service = await startServiceProcess({ databaseUrl: database.appUrl, env: { LOG_LEVEL: 'log' } });
    client = new ApiClient(service.baseUrl, demo?.keys.viewer);
    const script = join(import.meta.dirname, '../../support/key-flood.mjs');
    flood = fork(script, [service.baseUrl, String(WRONG_KEYS_A_MINUTE / 60)]);
  });
  afterAll(async () => {
    flood.disconnect();
    await service.kill('SIGTERM', 10_000);
    await database.drop();
  });

  const turn = async (command: 'on' | 'off'): Promise<Record<string, number>> => {
    flood.send(command);
    const [counts] = (await once(flood, 'message')) as [Record<string, number>];
    return { ...counts };
  };

  /** Milliseconds of each of the good client's requests, one after another. */
  const work = async (): Promise<number[]> => {
    const times: number[] = [];
    const end = performance.now() + TURN_MS;
    while (performance.now() < end) {
      const start = performance.now();
      const { status } = await client.get('/v1/orders?limit=1');
      expect(status).toBe(200);
      times.push(performance.now() - start);
    }
    return times;
  };

  const measure = async () => {
    const times: Record<'on' | 'off', number[]> = { on: [], off: [] };
    const requests: Record<'on' | 'off', number[]> = { on: [], off: [] };
    for (let i = 0; i < TURNS; i += 1) {
      for (const command of i % 2 === 0 ? (['off', 'on'] as const) : (['on', 'off'] as const)) {
        await turn(command);
        await sleep(50);
        const taken = await work();
        times[command].push(...taken);
        requests[command].push(taken.length);
      }
    }
    return {
      latency: median(times.on) / median(times.off),
      throughput: median(requests.off) / median(requests.on),
      medianMs: { quiet: median(times.off), flood: median(times.on) },
    };
  };

  it('slow it by no more than a tenth, lock it out never, and fill no log', async () => {
    for (let i = 0; i < 200; i += 1) await client.get('/v1/orders?limit=1');
    const logged = service.output().length;
    const measured: Awaited<ReturnType<typeof measure>>[] = [];
    const slowdown = await measureUntil(TOLERATED, async () => {
      const result = await measure();
      measured.push(result);
      return Math.max(result.latency, result.throughput);
    });
    const counts = await turn('off');
    console.log(JSON.stringify({ measured, counts }));
    // The flood was one: all of it was answered, nearly all of it without a look at the key.
    const sent = Object.values(counts).reduce((total, count) => total + count, 0);
    expect(sent).toBeGreaterThan(0.5 * measured.length * ((TURNS * TURN_MS) / 60_000) * WRONG_KEYS_A_MINUTE);
    expect(Object.keys(counts).toSorted()).toEqual(['401', '429']);
    expect(counts['401']).toBeLessThan(0.2 * sent);
    expect(slowdown).toBeLessThanOrEqual(TOLERATED);
    const lines = service.output().slice(logged).split('\n').filter(Boolean);
    // The good client's requests are logged as ever; of the flood there is nothing.
    expect(lines.filter((line) => !line.includes('"status":200'))).toEqual([]);
  });
});
