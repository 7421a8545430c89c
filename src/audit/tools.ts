/*
 * The part of the module's public face that knows no framework: logs, keys, exports and their verification. A command that
 * imports it starts at once, and has its memory for the log.
 */
export { originOf } from './format/checkpoint.js';
export { deriveLogKeys } from './format/log-keys.js';
export { parseVerifierKey, verifierKeyText } from './format/signed-note.js';
export { CheckpointDirectory } from './log/checkpoint-directory.js';
export { exportSource, exportSourceWithin } from './log/export-source.js';
export { LogStore, tenantsWithLogs } from './log/log-store.js';
export { isSameCheckpoint } from './log/open-log.js';
export { publishCheckpoint } from './log/publish-checkpoint.js';
export { SealRefused } from './log/seal-refused.js';
export { resumeLog } from './log/resume-log.js';
export { rotateKey } from './log/rotate-key.js';
export type { SealingTools } from './log/seal-batch.js';
export { sealerPool } from './log/sealer-pool.js';
export {
  ensureSigningKey,
  ownKeyFile,
  readSigningKey,
  SigningKeys,
  type SigningKeySource,
} from './log/signing-keys.js';
export { verifiedKeys } from './log/verified-keys.js';
export { ReceiptRefused, type VerifiedReceipt, verifyReceipt } from './receipts/verify-receipt.js';
export type { VerificationResult } from './verify/fault.js';
export { UnreadableExport } from './verify/export-format.js';
export { readUnverified } from './verify/expected-checkpoints.js';
export { parseTrustedKey, type TrustedKey } from './verify/trusted-key.js';
export { verifyExport } from './verify/verify-export.js';
export { overdueAfter, Verifier } from './verify/verifier.js';
export { tenantsToVerify } from './verify/tenants.js';
export { writeExport } from './verify/write-export.js';
export { Alarm, Watch } from './watch/watch.js';
export { ownLog, tiledLog } from './watch/watched-log.js';
export { parseWitnessKey, requireDistinct, witnessKeyText } from './witness/cosignature.js';
export { cosignWith, QuorumMissed } from './witness/cosign-with.js';
export { Witnesses } from './witness/witnesses.js';
export { Witness } from './witness/witness.js';
export { type WitnessReport, witnessServer } from './witness/witness-server.js';
export { WitnessState } from './witness/witness-state.js';
