import type { Bench } from './measures/measure.js';

export async function soak(_bench: Bench): Promise<number> {
  throw new Error('not yet');
}
