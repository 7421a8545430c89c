import { setTimeout as sleep } from 'node:timers/promises';
import { type BrokenInvariant, findBrokenInvariants } from './fault-checker.js';
import { liveStory } from './fault-client.js';
import { planRound } from './fault-plan.js';
import { FaultWorld } from './fault-world.js';
import { checkLog } from './log-check.js';
import type { Plant } from './plants.js';

export interface RoundsOptions {
  rounds: number;
  seed: number;
  /** The first round, to repeat one that failed. */
  from?: number;
  clients?: number;
  /** A bug to put in. */
  plant?: Plant;
  /** Longest that a client waits for a lasting answer. */
  patienceMs?: number;
  progress?: (line: string) => void;
}

export interface RoundsReport {
  seed: number;
  rounds: number;
  requests: number;
  seconds: number;
  /** How often each named point was reached. */
  reached: Record<string, number>;
  /** How often each `point: action` struck. */
  struck: Record<string, number>;
  answers: Record<string, number>;
  broken: (BrokenInvariant & { round: number })[];
}

const MOST_BROKEN = 25;

/** Rounds of sixteen clients' stories with a fault in each; after each round the database is read and judged. */
export async function runRounds(options: RoundsOptions): Promise<RoundsReport> {
  const { rounds, seed, from = 1, clients = 16, plant, patienceMs = 60_000, progress = () => undefined } = options;
  const began = Date.now();
  const report: RoundsReport = {
    seed,
    rounds: 0,
    requests: 0,
    seconds: 0,
    reached: {},
    struck: {},
    answers: {},
    broken: [],
  };
  const world = await FaultWorld.start(plant?.imports ? ['--import', plant.imports] : []);
  const count = (kind: string): void => void (report.answers[kind] = (report.answers[kind] ?? 0) + 1);
  try {
    if (plant?.sql) await world.postgres.query(plant.sql);
    const address = (): string | null => world.address(Math.random);
    const settings = { apiKey: world.apiKey, address, patienceMs, count };
    for (let round = from; round < from + rounds; round += 1) {
      const plan = planRound(seed, round, clients);
      world.arm(plan.faults);
      const stories = await Promise.all(plan.stories.map((story) => liveStory(story, settings)));
      await world.settle();
      // A transaction that was left open shows only when everything else is quiet.
      if (plant?.breaks.includes('nothing is stuck')) await sleep(1_500);
      const broken = await findBrokenInvariants(world.postgres.superuserUrl, stories);
      report.broken.push(...broken.map((each) => ({ ...each, round })));
      report.requests += stories.reduce((sum, { steps }) => sum + steps.length, 0);
      report.rounds += 1;
      const faults = plan.faults.map(({ point, action }) => `${action} at ${point}`).join(' and ');
      progress(`round ${round}: ${faults}${broken.length > 0 ? `: ${broken.length} BROKEN` : ''}`);
      if (report.broken.length >= MOST_BROKEN) break;
    }
    if (report.broken.length === 0) {
      const last = from + report.rounds - 1;
      report.broken.push(...(await checkLog(world)).map((each) => ({ ...each, round: last })));
    }
  } finally {
    await world.close();
  }
  return { ...report, reached: world.reached, struck: world.struck, seconds: Math.round((Date.now() - began) / 1000) };
}
