import type { Cosign } from '../log/publish-checkpoint.js';
import type { Witnessing, Witnesses } from './witnesses.js';

/** Too few witnesses have cosigned a checkpoint: it is signed and kept, but nobody outside gets it yet. */
export class QuorumMissed extends Error {
  override readonly name = 'QuorumMissed';
  /** Whether a witness knows another history of this log, or none of it may be believed. */
  readonly isAlarming: boolean;

  constructor(
    origin: string,
    size: number,
    quorum: number,
    readonly witnessing: Witnessing,
  ) {
    const { cosigned, troubles } = witnessing;
    const reasons = troubles.map(({ message }) => message).join('; ');
    super(`${origin}: the checkpoint of ${size} leaves has ${cosigned} of ${quorum} cosignatures. ${reasons}`);
    this.isAlarming = troubles.some(({ trouble }) => trouble === 'ahead' || trouble === 'lied');
  }
}

/** Cosigning for publication. */
export function cosignWith(witnesses: Witnesses): Cosign {
  return async (origin, checkpoint) => {
    const witnessing = await witnesses.cosign(origin, checkpoint);
    if (witnessing.hasQuorum) return witnessing.note;
    throw new QuorumMissed(origin, checkpoint.size, witnesses.quorum, witnessing);
  };
}
