import { createHash } from 'node:crypto';
import type { KillPoint } from '../../../src/database/index.js';
import { below, type Random, seededRandom } from '../storm-plan.js';

/** Where a fault strikes: at a named moment of a write or of its sealing, or at any moment. */
export const POINTS = [
  'claim.before',
  'claim.after',
  'write.after',
  'commit.before',
  'commit.after',
  'call.before',
  'call.after',
  'seal.locked',
  'seal.signed',
  'seal.appended',
  'seal.checkpointed',
  'seal.committed',
  'seal.publishing',
  'seal.published',
  'any time',
] as const satisfies readonly (KillPoint | 'any time')[];
export type Point = (typeof POINTS)[number];

/** What strikes. */
export const ACTIONS = [
  'kill service',
  'end service',
  'pause service',
  'end backends',
  'crash backend',
  'restart postgres',
  'kill postgres',
  'pause postgres',
] as const;
export type Action = (typeof ACTIONS)[number];

export interface PlannedFault {
  point: Point;
  action: Action;
  /** Milliseconds after the round's start at which it strikes (`any time`) or begins to wait for its point. */
  delayMs: number;
  /** The how manieth time the point is reached from then on. */
  occurrence: number;
  /** How long a pause lasts. */
  pauseMs: number;
}

/** One keyed request of a client's story about one order. */
export interface PlannedStep {
  key: string;
  kind: 'place' | 'confirm' | 'ship' | 'cancel' | 'deliver too early' | 'note' | 'pay' | 'capture';
  /** Sent twice at the same time, as by a double click. */
  isDoubled: boolean;
  /** Sent once more when it has been answered, as by a client that lost the answer. */
  isRepeated: boolean;
}

export interface PlannedRound {
  faults: PlannedFault[];
  /** The stories of each client, one after the other. */
  clients: Iterable<PlannedStep[]>[];
}

const STORIES: readonly PlannedStep['kind'][][] = [
  ['place'],
  ['place', 'confirm'],
  ['place', 'confirm', 'ship'],
  ['place', 'deliver too early', 'confirm'],
  ['place', 'note', 'cancel'],
  ['place', 'confirm', 'pay'],
  ['place', 'pay', 'capture'],
];

/** All that is random about a round, from its seed and number alone: the same again for a run that is repeated. */
export function planRound(seed: number, round: number, clients: number): PlannedRound {
  const random = randomOf(seed, round);
  // Every point with every action comes once before any comes again.
  const [point, action] = PAIRS[(round - 1) % PAIRS.length] ?? ['any time', 'kill service'];
  const faults = [planFault(random, point, action)];
  if (random() < 0.5) faults.push(planFault(random, pick(random, POINTS), pick(random, ACTIONS)));
  const stories = Array.from({ length: clients }, (_, client) => [planStory(random, `f-${seed}-${round}-${client}`)]);
  return { faults, clients: stories };
}

/** A round of chaos: for so long a new fault every second or two, while each client goes on from story to story. */
export function planChaos(seed: number, round: number, clients: number, lengthMs: number): PlannedRound {
  const random = randomOf(seed, round);
  const faults: PlannedFault[] = [];
  for (let at = below(random, 1_000); at < lengthMs; at += 300 + below(random, 2_400)) {
    const point = random() < 0.5 ? 'any time' : pick(random, POINTS);
    faults.push({ ...planFault(random, point, pick(random, ACTIONS)), delayMs: at });
  }
  const stories = Array.from({ length: clients }, (_, client) =>
    endless(randomOf(seed, round, client), `c-${seed}-${round}-${client}`),
  );
  return { faults, clients: stories };
}

/** Points by actions, neighbours being as different as can be, so that a few rounds show something of everything. */
export const PAIRS: readonly [Point, Action][] = Array.from({ length: POINTS.length * ACTIONS.length }, (_, at) => [
  POINTS[at % POINTS.length] ?? 'any time',
  ACTIONS[at % ACTIONS.length] ?? 'kill service',
]);

function* endless(random: Random, name: string): Generator<PlannedStep[]> {
  for (let story = 1; ; story += 1) yield planStory(random, `${name}-${story}`);
}

function planStory(random: Random, name: string): PlannedStep[] {
  return pick(random, STORIES).map((kind, step) => ({
    key: `${name}-${step}`,
    kind,
    isDoubled: random() < 0.3,
    isRepeated: random() < 0.5,
  }));
}

function planFault(random: Random, point: Point, action: Action): PlannedFault {
  return {
    point,
    action,
    delayMs: point === 'any time' ? below(random, 300) : 0,
    occurrence: 1 + below(random, occurrencesOf(point)),
    pauseMs: 200 + below(random, 1_200),
  };
}

/** How often a point is sure to be reached in a round: few requests call something outside, and batches are few. */
function occurrencesOf(point: Point): number {
  if (point.startsWith('seal')) return 2;
  return point.startsWith('call') ? 4 : 20;
}

function randomOf(...numbers: number[]): Random {
  return seededRandom(createHash('sha256').update(numbers.join('/')).digest().readUInt32BE());
}

function pick<T>(random: Random, from: readonly T[]): T {
  const picked = from[below(random, from.length)];
  if (picked === undefined) throw new Error('there is nothing to pick from');
  return picked;
}
