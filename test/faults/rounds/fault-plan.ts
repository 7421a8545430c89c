import { createHash } from 'node:crypto';
import type { KillPoint } from '../../../src/database/index.js';
import { below, type Random, seededRandom } from '../storm-plan.js';

/** Where a fault strikes: at a named moment of a write, or at any moment. */
export const POINTS = [
  'claim.before',
  'claim.after',
  'write.after',
  'commit.before',
  'commit.after',
  'call.before',
  'call.after',
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
  'pause postgres',
] as const;
export type Action = (typeof ACTIONS)[number];

export interface PlannedFault {
  point: Point;
  action: Action;
  /** The how manieth time the point is reached in this round. */
  occurrence: number;
  /** For `any time`: milliseconds after the round's start. */
  delayMs: number;
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
  round: number;
  faults: PlannedFault[];
  stories: PlannedStep[][];
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
  const random = seededRandom(createHash('sha256').update(`${seed}/${round}`).digest().readUInt32BE());
  // Every point with every action comes once before any comes again.
  const [point, action] = pairs()[(round - 1) % pairs().length] ?? ['any time', 'kill service'];
  const faults = [planFault(random, point, action)];
  if (random() < 0.25) faults.push(planFault(random, pick(random, POINTS), pick(random, ACTIONS)));
  const stories = Array.from({ length: clients }, (_, client) =>
    pick(random, STORIES).map((kind, step) => ({
      key: `f-${seed}-${round}-${client}-${step}`,
      kind,
      isDoubled: random() < 0.3,
      isRepeated: random() < 0.5,
    })),
  );
  return { round, faults, stories };
}

function pairs(): [Point, Action][] {
  return ACTIONS.flatMap((action) => POINTS.map((point): [Point, Action] => [point, action]));
}

function planFault(random: Random, point: Point, action: Action): PlannedFault {
  return {
    point,
    action,
    // Fewer requests call something outside than write.
    occurrence: 1 + below(random, point.startsWith('call') ? 4 : 20),
    delayMs: below(random, 300),
    pauseMs: 200 + below(random, 1_200),
  };
}

function pick<T>(random: Random, from: readonly T[]): T {
  const picked = from[below(random, from.length)];
  if (picked === undefined) throw new Error('there is nothing to pick from');
  return picked;
}
