import { NoteError } from '../format/signed-note.js';
import { cosignaturesOn, type WitnessKey } from '../witness/cosignature.js';
import { FaultFound } from './fault.js';

export interface WitnessTrust {
  witnesses: readonly WitnessKey[];
  /** How many of them must have cosigned. */
  quorum: number;
}

/**
 * Asks for cosignatures on a checkpoint that was found right otherwise.
 *
 * @param note null where there is none
 * @throws FaultFound
 */
export function requireCosigned(note: string | null, { witnesses, quorum }: WitnessTrust): void {
  if (quorum === 0) return;
  const count = note === null ? 0 : countOn(note, witnesses);
  if (count >= quorum) return;
  const what = note === null ? 'there is no published checkpoint' : `the published checkpoint has ${count}`;
  throw new FaultFound({ code: 'NOT_WITNESSED', detail: `${what} of the ${quorum} cosignatures that were asked for` });
}

function countOn(note: string, witnesses: readonly WitnessKey[]): number {
  try {
    return cosignaturesOn(note, witnesses).length;
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new FaultFound({ code: 'BAD_SIGNATURE', detail: error.message });
  }
}
