import { CheckpointError } from '../format/checkpoint.js';
import { NoteError, type NoteVerifier } from '../format/signed-note.js';
import { type ExportHeader, leafOf, parseExportLine, parseHeader, UnreadableExport } from './export-format.js';
import { FaultFound, type VerificationResult } from './fault.js';
import { KeyChain } from './key-chain.js';
import { linesOf } from './lines.js';
import { requireCosigned, type WitnessTrust } from './witness-check.js';
import { LogVerifier } from './log-verifier.js';

export interface ExportTrust {
  /** Keys that the verifier knows from elsewhere. */
  trusted: readonly NoteVerifier[];
  /** Notes that somebody kept. */
  checkpoints?: readonly string[];
  /** False checks hashes and chains only. */
  checkSignatures?: boolean;
  /** Witnesses of the export's own checkpoint. */
  cosigned?: WitnessTrust;
  /** Milliseconds from an event to its sealing from which on it is reported as late. */
  lateAfter?: number;
}

/**
 * Verifies an export with nothing but a public key and, if at hand, checkpoints.
 *
 * @param onProgress leaves done and to do
 * @throws UnreadableExport when there is no telling what the bytes are
 */
export async function verifyExport(
  chunks: AsyncIterable<Buffer>,
  trust: ExportTrust,
  onProgress: (done: number, total: number) => void = () => undefined,
): Promise<VerificationResult> {
  const lines = linesOf(chunks);
  const first = await lines.next();
  if (first.done) throw new UnreadableExport('the export is empty');
  const header = parseHeader(first.value);
  const verifier = begin(header, trust);
  try {
    for (const note of trust.checkpoints ?? []) verifier.expect(note, false);
    if (header.checkpoint !== null) verifier.expect(header.checkpoint, true);
    for await (const text of lines) {
      verifier.add(leafOf(parseExportLine(text, verifier.size + 2), header.tenantId));
      if (verifier.size % 1000 === 0) onProgress(verifier.size, header.size);
    }
    verifier.finishLog('UNPROVEN_TAIL');
    if (trust.cosigned) requireCosigned(header.checkpoint, trust.cosigned);
    if (header.checkpoint === null && header.size !== verifier.size)
      throw new UnreadableExport(`the header speaks of ${header.size} leaves, and there are ${verifier.size}`);
    return verifier.result(null, 0);
  } catch (error) {
    if (error instanceof FaultFound) return verifier.result(error.fault, 0);
    if (error instanceof NoteError || error instanceof CheckpointError)
      throw new UnreadableExport(`a checkpoint can't be read: ${error.message}`, { cause: error });
    throw error;
  }
}

function begin({ origin, tenantId }: ExportHeader, { trusted, checkSignatures, lateAfter }: ExportTrust): LogVerifier {
  return new LogVerifier({ tenantId, origin, keys: new KeyChain(), trusted, checkSignatures, lateAfter });
}
