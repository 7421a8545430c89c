const ATTEMPTS = 8;

/**
 * Measures until the value is within its bound, and returns the last one. What else a machine does spoils a measurement
 * now and then; a fault spoils every one. Only for files named `*.timing.spec.ts`, which run with nothing beside them.
 */
export async function measureUntil(bound: number, measure: () => number | Promise<number>): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const value = await measure();
    if (value <= bound || attempt === ATTEMPTS) return value;
  }
}
