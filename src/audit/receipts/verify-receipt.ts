import { CheckpointError, parseCheckpoint } from '../format/checkpoint.js';
import { eventHash } from '../format/event-hash.js';
import { verifyInclusion } from '../format/merkle.js';
import { NoteError, type NoteVerifier, openNote, UnknownSignerError } from '../format/signed-note.js';
import { cosignaturesOn, type WitnessKey } from '../witness/cosignature.js';
import { entryLeaf, type Entry, parseEntry } from './entry.js';
import { MalformedProof, parseTlogProof } from './tlog-proof.js';

export interface ReceiptTrust {
  /** Keys that sign the log's checkpoints; the name of a key is its log's origin. */
  keys: readonly NoteVerifier[];
  witnesses: readonly WitnessKey[];
  /** How many of them must have cosigned. */
  quorum: number;
}

/** Why a receipt isn't one. The verdicts are those of verification: what nobody vouches for is not tampered with. */
export class ReceiptRefused extends Error {
  override readonly name = 'ReceiptRefused';

  constructor(
    readonly verdict: 'tampered' | 'unverifiable',
    readonly code: 'UNREADABLE' | 'UNKNOWN_KEY' | 'BAD_SIGNATURE' | 'ROOT_MISMATCH' | 'NOT_WITNESSED',
    message: string,
  ) {
    super(message);
  }
}

export interface VerifiedReceipt {
  origin: string;
  /** Leaves of the checkpoint. */
  size: number;
  index: number;
  entry: Entry;
  eventHash: Buffer;
  /** Witnesses that cosigned, with the time in seconds since 1970. */
  cosignedBy: { name: string; timestamp: number }[];
}

/**
 * What a receipt proves: that this event is in the log, as a checkpoint has it that the log's key signed.
 *
 * @param text a C2SP tlog-proof whose extra data is the entry
 * @throws ReceiptRefused
 */
export function verifyReceipt(text: string, { keys, witnesses, quorum }: ReceiptTrust): VerifiedReceipt {
  const { proof, entry } = read(text);
  const { origin, size, root } = open(proof.checkpoint, keys);
  const cosignatures = refusing(() => cosignaturesOn(proof.checkpoint, witnesses));
  if (cosignatures.length < quorum) {
    const message = `${cosignatures.length} of the known witnesses have cosigned the checkpoint, not ${quorum}`;
    throw new ReceiptRefused('unverifiable', 'NOT_WITNESSED', message);
  }
  if (!verifyInclusion(entryLeaf(proof.extra), proof.index, size, proof.hashes, root)) {
    throw new ReceiptRefused('tampered', 'ROOT_MISMATCH', `the event is not leaf ${proof.index} of the log ${origin}`);
  }
  return {
    origin,
    size,
    index: proof.index,
    entry,
    eventHash: eventHash(entry.event),
    cosignedBy: cosignatures.map(({ witness, timestamp }) => ({ name: witness.name, timestamp })),
  };
}

function read(text: string) {
  try {
    const { extra, ...proof } = parseTlogProof(text);
    const entry = extra && parseEntry(extra);
    if (!entry) throw new MalformedProof('its extra data is not an event of Waybill');
    return { proof: { ...proof, extra }, entry };
  } catch (error) {
    if (!(error instanceof MalformedProof)) throw error;
    throw new ReceiptRefused('unverifiable', 'UNREADABLE', `the file is not a receipt: ${error.message}`);
  }
}

function open(note: string, keys: readonly NoteVerifier[]) {
  return refusing(() => {
    const { text, signedBy } = openNote(note, keys);
    const checkpoint = parseCheckpoint(text);
    if (signedBy.some(({ name }) => name === checkpoint.origin)) return checkpoint;
    throw new UnknownSignerError(`the checkpoint is of the log ${checkpoint.origin}, whose key was not given`);
  });
}

function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof UnknownSignerError) throw new ReceiptRefused('unverifiable', 'UNKNOWN_KEY', error.message);
    if (error instanceof NoteError || error instanceof CheckpointError) {
      throw new ReceiptRefused('tampered', 'BAD_SIGNATURE', error.message);
    }
    throw error;
  }
}
