const BITS_OF_Y = 0x7f;
/** The field's prime, 2^255 - 19, big-endian. */
const P = Buffer.from(`7f${'ff'.repeat(30)}ed`, 'hex');
/** The y of the eight points whose order divides 8, big-endian. Under such a key a signature proves nothing. */
const WEAK: ReadonlySet<string> = new Set([
  '00'.repeat(32),
  `${'00'.repeat(31)}01`,
  `7f${'ff'.repeat(30)}ec`,
  '05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826',
  '7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7',
]);

/** Whether 32 bytes may be an Ed25519 public key: its y is written in the one way, and it is not a weak one. */
export function isSoundPublicKey(raw: Buffer): boolean {
  const y = Buffer.from(raw.toReversed());
  y[0] = (y[0] ?? 0) & BITS_OF_Y;
  return y.compare(P) < 0 && !WEAK.has(y.toString('hex'));
}
