import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { UnkeyedModule } from '../../bench/service/unkeyed-route.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { orderBody } from '../support/builders.js';
import { median } from '../../bench/report/row.js';
import { rows } from '../support/sql.js';

/* What a key costs: placing an order with one against the same route without, and a replay against either. */

const SIDES = ['plain', 'keyed', 'replay'] as const;
type Side = (typeof SIDES)[number];

export interface SideCost {
  requestsPerSecond: number;
  /** Of the service and of PostgreSQL's backends together; null where /proc doesn't tell. */
  cpuMilliseconds: number | null;
}

const ROUNDS = 7;
const PER_ROUND = 800;
const CLIENTS = 8;

/** Medians of several rounds, in which the sides alternate. Not under Jest, where `inject` doesn't work. */
export async function measureCreateCost(): Promise<Record<Side, SideCost>> {
  const service = await startTestApp({ extensions: [UnkeyedModule] });
  const found: Record<Side, { seconds: number; cpu: number | null }[]> = { plain: [], keyed: [], replay: [] };
  const replayed = orderBody();
  try {
    for (let round = 0; round <= ROUNDS; round += 1) {
      for (const side of SIDES) {
        const cost = await measureRound(service, side, replayed);
        if (round > 0) found[side].push(cost);
      }
    }
  } finally {
    await service.close();
  }
  const costOf = (side: Side): SideCost => ({
    requestsPerSecond: Math.round(PER_ROUND / median(found[side].map(({ seconds }) => seconds))),
    cpuMilliseconds: found[side].some(({ cpu }) => cpu === null)
      ? null
      : Math.round((median(found[side].map(({ cpu }) => cpu ?? 0)) / PER_ROUND) * 1000) / 1000,
  });
  return { plain: costOf('plain'), keyed: costOf('keyed'), replay: costOf('replay') };
}

async function measureRound(service: TestApp, side: Side, replayed: object) {
  const cpuBefore = await cpuOf(service);
  const began = process.hrtime.bigint();
  let left = PER_ROUND;
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left > 0) {
        left -= 1;
        await place(service.app, service.as('operator').apiKey ?? '', side, replayed);
      }
    }),
  );
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  const cpuAfter = await cpuOf(service);
  return { seconds, cpu: cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore };
}

async function place(app: NestFastifyApplication, apiKey: string, side: Side, replayed: object): Promise<void> {
  const answer = await app.inject({
    method: 'POST',
    url: side === 'plain' ? '/bench/orders' : '/v1/orders',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'idempotency-key': side === 'replay' ? 'again-and-again' : randomUUID(),
    },
    payload: side === 'replay' ? replayed : orderBody(),
  });
  // The very first of the replays, and others at the same moment, are none.
  if (answer.statusCode !== 201 && !(side === 'replay' && answer.statusCode === 409)) {
    throw new Error(`${answer.statusCode} ${answer.body}`);
  }
}

const TICK_MS = 10;

/** Milliseconds of this process and of the backends that serve it. */
async function cpuOf({ database }: TestApp): Promise<number | null> {
  const backends = await rows<{ pid: number }>(
    database.superuserUrl,
    `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = 'waybill_app'`,
  );
  const { user, system } = process.cpuUsage();
  try {
    const ticks = backends.map(({ pid }) => {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return Number(fields[11]) + Number(fields[12]);
    });
    return (user + system) / 1000 + ticks.reduce((sum, count) => sum + count, 0) * TICK_MS;
  } catch {
    return null;
  }
}
