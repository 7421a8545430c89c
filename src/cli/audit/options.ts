import { parseWitnessKey, requireDistinct } from '../../audit/tools.js';

/** For commander: an option that may be repeated. */
export function collect(value: string, all: string[]): string[] {
  return [...all, value];
}

/**
 * `--witness` and `--quorum`: whose cosignatures count, and how many there must be.
 *
 * @throws Error that says what to give
 */
export function readTrustedWitnesses({ witness, quorum }: { witness: readonly string[]; quorum?: string }) {
  const witnesses = witness.map(parseWitnessKey);
  requireDistinct(witnesses);
  const needed = quorum === undefined ? witnesses.length : Number(quorum);
  if (quorum !== undefined && (!/^[1-9]\d?$/.test(quorum) || needed > witnesses.length)) {
    throw new Error(
      `--quorum must be a number from 1 to that of the witnesses given, ${witnesses.length}, not "${quorum}"`,
    );
  }
  return { witnesses, quorum: needed };
}
