import type { Bench } from '../measures/measure.js';
import type { Sample } from './sample.js';

export interface Side {
  name: string;
  run(seconds: number): Promise<Sample>;
}

/**
 * Gives each side its turn, round after round (A B A B), after a first turn that isn't counted: what else happens on the
 * machine then happens to all of them.
 *
 * @returns samples by side, in the order of the sides
 */
export async function alternate({ options, server, say }: Bench, sides: Side[]): Promise<Sample[][]> {
  // Figures that mean nothing need no warm sides.
  for (const side of options.quick ? [] : sides) {
    say(`warming up: ${side.name}`);
    await side.run(options.warmSeconds);
  }
  await server.analyze();
  const samples: Sample[][] = sides.map(() => []);
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const [index, side] of sides.entries()) {
      say(`round ${round} of ${options.rounds}: ${side.name}`);
      samples[index]?.push(await side.run(options.seconds));
    }
  }
  return samples;
}
