/** Everything that a verification can find. The codes are a promise to whoever acts on them. */
export const FAULT_CODES = [
  'HASH_MISMATCH',
  'PREV_MISMATCH',
  'GAP',
  'FORK',
  'BAD_SIGNATURE',
  'TIME_REVERSED',
  'UNKNOWN_KEY',
  'SIZE_BELOW_CHECKPOINT',
  'UNPROVEN_TAIL',
  'SIZE_MISMATCH',
  'BAD_CHECKPOINT',
  'ROOT_MISMATCH',
  'INCONSISTENT',
  'UNSEALED_OVERDUE',
  'MISSING_STREAM',
  'MISSING_TENANT',
  'MISSING_CHECKPOINT',
  'VALUE_MISSING',
  'STATE_DRIFT',
  'HISTORY_DRIFT',
  'NOT_WITNESSED',
] as const;
export type FaultCode = (typeof FAULT_CODES)[number];

/** The first thing that is wrong, and where. */
export interface Fault {
  code: FaultCode;
  /** One sentence for a person. */
  detail: string;
  /** Index of the leaf in the log. */
  index?: number;
  stream?: string;
  version?: number;
}

export type Verdict = 'intact' | 'tampered' | 'unverifiable';

/** These say nothing about the events: somebody else may know the key, or have the checkpoint. */
const UNVERIFIABLE: ReadonlySet<FaultCode> = new Set([
  'UNKNOWN_KEY',
  'UNPROVEN_TAIL',
  'NOT_WITNESSED',
  'BAD_CHECKPOINT',
]);

export function verdictOf(fault: Fault | null): Verdict {
  if (!fault) return 'intact';
  return UNVERIFIABLE.has(fault.code) ? 'unverifiable' : 'tampered';
}

/** What a verification found of one log. */
export interface VerificationResult {
  verdict: Verdict;
  fault: Fault | null;
  origin: string;
  tenantId: number;
  /** Leaves that were read begin here: what came before was verified earlier and not read again. */
  fromIndex: number;
  /** Leaves of the log. */
  size: number;
  /** Merkle root of all leaves, in hex. */
  root: string;
  /** Streams that were met. */
  streams: number;
  /** Events that are not in the log yet. */
  unsealed: number;
  signaturesChecked: boolean;
  /** Restores that the log itself tells of; nothing can be said of what they left behind. */
  breaks: LogBreak[];
  /** Events that were sealed long after they occurred; null without any. As when somebody made up or rewrote history. */
  late: LateSealing | null;
}

export interface LateSealing {
  count: number;
  /** Index of the first one. */
  firstIndex: number;
  /** Between occurring and being sealed, at most. */
  greatestSeconds: number;
}

/** The log went on from an older state, and said so. */
export interface LogBreak {
  index: number;
  /** What the log is called from this leaf on. */
  origin: string;
  /** Leaves that the abandoned checkpoint covered. */
  abandonedSize: number;
  abandonedNote: string;
}

/** Ends a verification; caught by whoever runs it. */
export class FaultFound extends Error {
  override readonly name = 'FaultFound';

  constructor(readonly fault: Fault) {
    super(`${fault.code}: ${fault.detail}`);
  }
}
