import { setTimeout as sleep } from 'node:timers/promises';
import { type BrokenInvariant, findBrokenInvariants } from './fault-checker.js';
import { type ClientSettings, liveStory, type StoryRecord } from './fault-client.js';
import { planChaos, type PlannedStep, planRound } from './fault-plan.js';
import { FaultWorld } from './fault-world.js';
import { checkLog, findLogFaults } from './log-check.js';
import type { Plant } from './plants.js';
import { HANG_MS } from '../../support/waiting.js';

export interface RoundsOptions {
  rounds: number;
  seed: number;
  /** The first round, to repeat one that failed. */
  from?: number;
  clients?: number;
  /** How long a round of chaos lasts; without it each client lives one story, and one fault or two strike. */
  chaosMs?: number;
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

/** The whole log is read after so many rounds, and at the end. */
const ROUNDS_BETWEEN_VERIFICATIONS = 25;

/** Killed ones start beside the rounds, which go on with two; in chaos there are only ever two. */
const CALM = { services: 3, serving: 2 };
const CHAOS = { services: 2, serving: 2 };
/** Two, so that a retry finds another one while the first starts again. */
const PLANTED = { services: 2, serving: 1 };

/** Rounds of sixteen clients' stories with faults in each; after each round the database is read and judged. */
export async function runRounds(options: RoundsOptions): Promise<RoundsReport> {
  const { rounds, seed, from = 1, plant, progress = () => undefined } = options;
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
  const world = await FaultWorld.start({
    ...(plant ? PLANTED : options.chaosMs === undefined ? CALM : CHAOS),
    nodeOptions: plant?.imports ? ['--import', plant.imports] : [],
  });
  try {
    if (plant?.sql) await world.postgres.query(plant.sql);
    for (let round = from; round < from + rounds; round += 1) {
      const roundBegan = Date.now();
      const { stories, broken, faults } = await runRound(world, round, options, report);
      const isDue = plant !== undefined || round === from + rounds - 1 || round % ROUNDS_BETWEEN_VERIFICATIONS === 0;
      if (isDue && broken.length === 0) broken.push(...(await checkLog(world)));
      report.broken.push(...broken.map((each) => ({ ...each, round })));
      report.requests += stories.reduce((sum, { steps }) => sum + steps.length, 0);
      report.rounds += 1;
      const seconds = ((Date.now() - roundBegan) / 1000).toFixed(1);
      progress(`round ${round}, ${seconds} s: ${faults}${broken.length > 0 ? `: ${broken.length} BROKEN` : ''}`);
      if (report.broken.length >= MOST_BROKEN || report.broken.some((each) => plant?.breaks.includes(each.invariant)))
        break;
    }
  } finally {
    await world.close();
  }
  return { ...report, reached: world.reached, struck: world.struck, seconds: Math.round((Date.now() - began) / 1000) };
}

async function runRound(
  world: FaultWorld,
  round: number,
  { seed, clients = 16, chaosMs, plant, patienceMs = HANG_MS }: RoundsOptions,
  { answers }: RoundsReport,
): Promise<{ stories: StoryRecord[]; broken: BrokenInvariant[]; faults: string }> {
  const plan = chaosMs === undefined ? planRound(seed, round, clients) : planChaos(seed, round, clients, chaosMs);
  const settings: ClientSettings = {
    apiKey: world.apiKey,
    address: () => world.address(Math.random),
    patienceMs,
    count: (kind) => void (answers[kind] = (answers[kind] ?? 0) + 1),
  };
  const until = Date.now() + (chaosMs ?? 0);
  world.arm(plan.faults);
  const stories = (await Promise.all(plan.clients.map((own) => live(own, settings, until)))).flat();
  await world.untilSealed();
  await world.settle();
  // A transaction that was left open shows only when everything else is quiet.
  if (plant?.breaks.includes('nothing is stuck')) await sleep(1_500);
  const broken = [
    ...(await findBrokenInvariants(world.postgres.superuserUrl, stories)),
    ...(await findLogFaults(world)),
    ...world.crashes
      .splice(0)
      .map((detail) => ({ invariant: 'no service dies by itself' as const, subject: 'a service', detail })),
  ];
  const names = plan.faults.map(({ point, action }) => `${action} at ${point}`);
  const faults = chaosMs === undefined ? names.join(' and ') : `${names.length} faults, ${stories.length} orders`;
  return { stories, broken, faults };
}

/** One story after the other until the time is over; a story that was begun is lived to its end. */
async function live(stories: Iterable<PlannedStep[]>, settings: ClientSettings, until: number): Promise<StoryRecord[]> {
  const records: StoryRecord[] = [];
  for (const story of stories) {
    records.push(await liveStory(story, settings));
    if (Date.now() >= until) break;
  }
  return records;
}
