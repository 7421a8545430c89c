import type { Sample } from './sample.js';

export interface Side {
  name: string;
  run(seconds: number): Promise<Sample>;
}

export interface Turns {
  rounds: number;
  seconds: number;
  warmSeconds: number;
}

/**
 * Gives each side its turn, round after round (A B A B), after a first turn that isn't counted: what else happens on the
 * machine then happens to all of them.
 *
 * @returns samples by side, in the order of the sides
 */
export async function alternate(sides: Side[], turns: Turns, say: (text: string) => void): Promise<Sample[][]> {
  for (const side of sides) {
    say(`warming up: ${side.name}`);
    await side.run(turns.warmSeconds);
  }
  const samples: Sample[][] = sides.map(() => []);
  for (let round = 1; round <= turns.rounds; round += 1) {
    for (const [index, side] of sides.entries()) {
      say(`round ${round} of ${turns.rounds}: ${side.name}`);
      samples[index]?.push(await side.run(turns.seconds));
    }
  }
  return samples;
}
