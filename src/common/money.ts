/** The greatest amount of money, in minor units (cents, yen, fils): sums of a few hundred of them stay below 2^53. */
export const MAX_AMOUNT = 9_000_000_000_000;

/** Whether a value is an integer from `min` to `max`, both included. */
export function isIntegerWithin(value: unknown, min: number, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}
