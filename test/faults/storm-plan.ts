import { createHash } from 'node:crypto';

/** A generator of numbers in [0, 1) that a seed fixes (mulberry32), so that a run can be repeated. */
export type Random = () => number;

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function below(random: Random, limit: number): number {
  return Math.floor(random() * limit);
}

/** One request, to be sent one to four times under one key. */
export interface PlannedRequest {
  key: string;
  kind: 'place' | 'move';
  /** For each time it is sent: which body goes along. 0 is the request's own, others are another's. */
  variants: number[];
  isParallel: boolean;
}

export function planRequests(random: Random, count: number, seed: number): PlannedRequest[] {
  return Array.from({ length: count }, (_, index) => {
    const times = 1 + below(random, 4);
    return {
      key: createHash('sha256').update(`${seed}/${index}`).digest('hex').slice(0, 32),
      kind: random() < 0.7 ? 'place' : 'move',
      variants: Array.from({ length: times }, (_, time) => (time > 0 && random() < 0.15 ? 1 : 0)),
      isParallel: random() < 0.5,
    };
  });
}
