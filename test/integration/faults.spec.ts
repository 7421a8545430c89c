import { describe, expect, it } from '@jest/globals';
import { PLANTS } from '../faults/rounds/plants.js';
import { runRounds } from '../faults/rounds/run-rounds.js';

/** The short form; `npm run faults -- --rounds 1000` is the long one. A failure's seed repeats it there. */
const SEED = Number(process.env.FAULT_SEED ?? Date.now() % 1_000_000);
const ROUNDS = 5;
/** Rounds of the plan are in a fixed order; this many begin somewhere else in each run. */
const DIFFERENT_FAULTS = 56;

/** The checker is the same on every PostgreSQL; once a run is enough. */
const itOnce = process.env.TEST_POSTGRES === '15' ? it.skip : it;

describe('rounds of faults', () => {
  it('break nothing', async () => {
    const report = await runRounds({ rounds: ROUNDS, seed: SEED, from: 1 + (SEED % DIFFERENT_FAULTS) });
    expect(report).toMatchObject({ seed: SEED, rounds: ROUNDS, broken: [] });
    expect(Object.keys(report.struck).length).toBeGreaterThan(0);
  }, 300_000);

  itOnce.each(PLANTS)(
    'show that $name',
    async (plant) => {
      const { broken } = await runRounds({ rounds: 2, seed: SEED, clients: 8, plant, patienceMs: 3_000 });
      const names = broken.map(({ invariant }) => invariant);
      expect(names.filter((name) => plant.breaks.includes(name)).length).toBeGreaterThan(0);
    },
    120_000,
  );
});
