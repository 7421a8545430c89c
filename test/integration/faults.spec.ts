import { describe, expect, it } from '@jest/globals';
import { PAIRS, POINTS } from '../faults/rounds/fault-plan.js';
import { PLANTS } from '../faults/rounds/plants.js';
import { runPlanted } from '../faults/rounds/planted-round.js';
import { runRounds } from '../faults/rounds/run-rounds.js';

/** The short form, the same each time; `npm run faults -- --rounds 1000` is the long one, which takes a seed of its own. */
const SEED = Number(process.env.FAULT_SEED ?? 1);
const ROUNDS = 4;

describe('rounds of faults', () => {
  it('come to every action at every point', () => {
    expect(new Set(PAIRS.map(String)).size).toBe(PAIRS.length);
  });

  it('break nothing, and come by every point', async () => {
    const report = await runRounds({ rounds: ROUNDS, seed: SEED });
    expect(report).toMatchObject({ seed: SEED, rounds: ROUNDS, broken: [] });
    expect(Object.keys(report.struck).length).toBeGreaterThan(0);
    const points = POINTS.filter((point) => point !== 'any time');
    // A log begins once: a round can't wait for that.
    const reached = Object.keys(report.reached).filter((point) => point !== 'seal.started');
    expect(reached.toSorted()).toEqual(points.toSorted());
  });

  it('break nothing when they come one upon the other, either', async () => {
    const report = await runRounds({ rounds: 1, seed: SEED, chaosMs: 5_000 });
    expect(report).toMatchObject({ seed: SEED, rounds: 1, broken: [] });
    expect(Object.keys(report.struck).length).toBeGreaterThan(0);
  });

  it.each(PLANTS)('show that $name', async (plant) => {
    const broken = await runPlanted(plant, SEED);
    const names = broken.map(({ invariant }) => invariant);
    if (!names.some((name) => plant.breaks.includes(name)))
      throw new Error(`${plant.breaks.join(' or ')} was to break; broken: ${names.join(', ') || 'nothing'}`);
  });
});
