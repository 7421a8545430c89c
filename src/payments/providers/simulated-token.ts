import { createHash } from 'node:crypto';
import type { Operation } from '../provider-key.js';

/** How a simulated request goes wrong on its way. None of them is a decline: those the provider's books know. */
export const FAULTS = [
  'slow',
  'timeout_before',
  'timeout_after',
  'error_before',
  'error_after',
  'conflict',
  'rate_limited',
] as const;
export type Fault = (typeof FAULTS)[number];

const NAMED = new RegExp(`^tok_(?:(authorize|capture|void|refund)_)?(${FAULTS.join('|')})$`);
/** Of this many requests of a payment with `tok_chaos` half go wrong, each of them in one of the ways above. */
const CHAOS_SIDES = FAULTS.length * 2;

/**
 * What goes wrong with a request, by the payment's token. A fault happens to the first request under a key and not to its
 * repetitions; with `tok_chaos` it may happen to any.
 *
 * @param arrivals how often the key has arrived, this time included
 */
export function faultOf(token: string, operation: Operation, key: string, arrivals: number): Fault | null {
  if (token === 'tok_chaos') {
    const [draw = 0] = createHash('sha256').update(`${key}/${arrivals}`).digest();
    return FAULTS[draw % CHAOS_SIDES] ?? null;
  }
  const [, faulty = 'authorize', fault] = NAMED.exec(token) ?? [];
  return fault && faulty === operation && arrivals === 1 ? (fault as Fault) : null;
}
