import { CheckpointError } from '../format/checkpoint.js';
import { NoteError } from '../format/signed-note.js';
import { malformedLine, parseHeader, UnreadableExport } from './export-format.js';
import { FaultFound, type VerificationResult } from './fault.js';
import { KeyChain } from './key-chain.js';
import { type LeafLine, LeafLines } from './leaf-line.js';
import { NotAsWritten } from './line-reader.js';
import { linesOf } from './lines.js';
import { requireCosigned, type WitnessTrust } from './witness-check.js';
import { LogVerifier } from './log-verifier.js';
import type { TrustedKey } from './trusted-key.js';

export interface ExportTrust {
  /** Keys that the verifier knows from elsewhere. */
  trusted: readonly TrustedKey[];
  /** Notes that somebody kept. */
  checkpoints?: readonly string[];
  /** False checks hashes and chains only. */
  checkSignatures?: boolean;
  /** Witnesses of the export's own checkpoint. */
  cosigned?: WitnessTrust;
  /** Milliseconds from an event to its sealing from which on it is reported as late. */
  lateAfter?: number;
}

const FORMAT = 1;
/** Leaves between two reports of progress. */
const PROGRESS_STEP = 1000;

/**
 * Verifies an export with nothing but a public key and, if at hand, checkpoints.
 *
 * @param onProgress leaves done and to do
 * @throws UnreadableExport when the bytes are not an export as the format has it
 */
export async function verifyExport(
  chunks: AsyncIterable<Buffer>,
  { trusted, checkpoints = [], checkSignatures, cosigned, lateAfter }: ExportTrust,
  onProgress: (done: number, total: number) => void = () => undefined,
): Promise<VerificationResult> {
  const batches = linesOf(chunks);
  const first = await batches.next();
  if (first.done) throw new UnreadableExport('MALFORMED', 'the file is empty', 1);
  const [head, ...more] = first.value as [Buffer, ...Buffer[]];
  const header = parseHeader(head);
  const { origin, tenantId, size } = header;
  const verifier = new LogVerifier({ tenantId, origin, keys: new KeyChain(), trusted, checkSignatures, lateAfter });
  const lines = new LeafLines(tenantId);
  const add = (batch: readonly Buffer[]): void => {
    for (const line of batch) {
      verifier.add(readLine(lines, line, verifier.size + 2));
      if (verifier.size % PROGRESS_STEP === 0) onProgress(verifier.size, size);
    }
  };
  try {
    if (header.checkpoint !== null) readable(1, () => verifier.expect(header.checkpoint ?? '', true));
    for (const note of checkpoints) readable(undefined, () => verifier.expect(note, false));
    add(more);
    for await (const batch of batches) add(batch);
    verifier.finishLog({ uncovered: 'UNPROVEN_TAIL', statedSize: size, mayBeEmpty: false });
    if (cosigned) requireCosigned(header.checkpoint, cosigned);
    return verifier.result(null, 0);
  } catch (error) {
    if (error instanceof FaultFound) return verifier.result(error.fault, 0);
    throw error;
  }
}

/** @param number of the line, from 1 */
function readLine(lines: LeafLines, line: Buffer, number: number): LeafLine {
  let leaf: LeafLine;
  try {
    leaf = lines.read(line);
  } catch (error) {
    throw error instanceof NotAsWritten ? malformedLine(line, number) : error;
  }
  if (leaf.format === FORMAT) return leaf;
  throw new UnreadableExport('UNKNOWN_FORMAT', `the event is in the format ${leaf.format}, not ${FORMAT}`, number);
}

function readable(line: number | undefined, expect: () => void): void {
  try {
    expect();
  } catch (error) {
    if (!(error instanceof NoteError || error instanceof CheckpointError)) throw error;
    throw new UnreadableExport('MALFORMED', `a checkpoint can't be read: ${error.message}`, line);
  }
}
