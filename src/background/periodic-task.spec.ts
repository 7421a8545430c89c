import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { PeriodicTask, type PeriodicWork } from './periodic-task.js';

const INTERVAL = 1000;

let said: string[];
beforeEach(() => {
  jest.useFakeTimers();
  said = [];
});
afterEach(() => {
  jest.useRealTimers();
});

function task<Result>(run: () => Promise<Result>, options: Partial<PeriodicWork<Result>> = {}): PeriodicTask<Result> {
  const log = { warn: (text: string) => said.push(text), log: (text: string) => said.push(text) };
  const work = { name: 'test', failure: 'It failed', interval: INTERVAL, first: 'with-start' as const, run };
  return new PeriodicTask({ ...work, ...options }, log);
}

/** The interval with the most that chance adds. */
const pass = (intervals = 1) => jest.advanceTimersByTimeAsync(intervals * INTERVAL * 1.1);

describe('a periodic task', () => {
  it('runs a round with the start and one after each interval', async () => {
    const periodic = task(() => Promise.resolve());
    periodic.start();
    await jest.advanceTimersByTimeAsync(0);
    expect(periodic.figures.rounds).toBe(1);
    await pass();
    expect(periodic.figures.rounds).toBe(2);
    await pass();
    expect(periodic.figures.rounds).toBe(3);
  });

  it('waits for a part of the interval before the first round where it is told to', async () => {
    const periodic = task(() => Promise.resolve(), { first: 'within-interval' });
    jest.spyOn(Math, 'random').mockReturnValueOnce(0.5);
    periodic.start();
    await jest.advanceTimersByTimeAsync(INTERVAL / 2 - 1);
    expect(periodic.figures.rounds).toBe(0);
    await jest.advanceTimersByTimeAsync(1);
    expect(periodic.figures.rounds).toBe(1);
  });

  it('never runs two rounds at once, whoever asks, and gives each its own result', async () => {
    let running = 0;
    let most = 0;
    let round = 0;
    const periodic = task(async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 50));
      running -= 1;
      return (round += 1);
    });
    periodic.start();
    const asked = Promise.all([periodic.runNow(), periodic.runNow()]);
    await pass();
    expect(await asked).toEqual([1, 2]);
    expect(most).toBe(1);
  });

  it('goes on after a round that failed, and logs a fault that lasts once', async () => {
    let fault: string | null = 'away';
    const periodic = task(() => (fault ? Promise.reject(new Error(fault)) : Promise.resolve()));
    periodic.start();
    await pass(3);
    fault = 'still away';
    await pass(2);
    fault = null;
    await pass();
    expect(said).toEqual(['It failed: away', 'It failed: still away', 'No longer: It failed: still away']);
    expect(periodic.figures.failedRounds).toBeGreaterThanOrEqual(4);
    expect(periodic.figures.rounds).toBe(1);
  });

  it('throws the failure to whoever asked for the round', async () => {
    await expect(task(() => Promise.reject(new Error('no'))).runNow()).rejects.toThrow('no');
  });

  it('stops once the present round is through, with a last one where there may be something left', async () => {
    let through = 0;
    const work = async () => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      through += 1;
    };
    for (const [endsWithRound, rounds] of [
      [false, 1],
      [true, 2],
    ] as const) {
      through = 0;
      const periodic = task(work, { endsWithRound });
      periodic.start();
      await jest.advanceTimersByTimeAsync(10);
      const stopped = periodic.stop();
      expect(periodic.isStopping).toBe(true);
      await jest.advanceTimersByTimeAsync(100);
      await stopped;
      expect(through).toBe(rounds);
      await pass(3);
      expect(through).toBe(rounds);
    }
  });
});
