import { randomInt } from 'node:crypto';

/** Crockford's base 32: no I, L, O, U, so that it can be read out loud and typed without doubt. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const LENGTH = 8;

/**
 * A short code for people, such as `7K3M-9QXT`: 40 random bits. It comes from no counter, so that creation never
 * queues; the rare collision is refused by the unique key and drawn again.
 */
export function drawOrderNumber(): string {
  const digits = Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  return `${digits.slice(0, 4)}-${digits.slice(4)}`;
}
