import { type NoteSigner, signNote } from './signed-note.js';
import { HASH_LENGTH } from './event-hash.js';

/** What a log is at one moment (https://c2sp.org/tlog-checkpoint@v1.0.0). */
export interface Checkpoint {
  /** Name of the log, as `originOf` makes it. */
  origin: string;
  size: number;
  root: Buffer;
}

export class CheckpointError extends Error {
  override readonly name = 'CheckpointError';
}

/**
 * Name of a tenant's log: `<AUDIT_ORIGIN>/<tenant id>`, and with `/2`, `/3`, … behind it after each restore.
 *
 * @param generation from 1
 */
export function originOf(base: string, tenantId: number, generation = 1): string {
  return generation === 1 ? `${base}/${tenantId}` : `${base}/${tenantId}/${generation}`;
}

export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

export function signCheckpoint(checkpoint: Checkpoint, signers: readonly NoteSigner[]): string {
  return signNote(checkpointText(checkpoint), signers);
}

/**
 * Reads the text of an opened note. Extension lines are passed over.
 *
 * @throws CheckpointError
 */
export function parseCheckpoint(text: string): Checkpoint {
  const lines = text.split('\n');
  const [origin = '', size = '', encoded = '', ...rest] = lines;
  const root = Buffer.from(encoded, 'base64');
  const isSound =
    origin !== '' &&
    /^(0|[1-9]\d{0,15})$/.test(size) &&
    Number.isSafeInteger(Number(size)) &&
    root.length === HASH_LENGTH &&
    root.toString('base64') === encoded &&
    rest.at(-1) === '' &&
    rest.slice(0, -1).every((line) => line !== '');
  if (!isSound) throw new CheckpointError('not a checkpoint: origin, size and root are expected, a line each');
  return { origin, size: Number(size), root };
}
