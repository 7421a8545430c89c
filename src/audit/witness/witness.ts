import { type Checkpoint, CheckpointError, parseCheckpoint } from '../format/checkpoint.js';
import { sha256 } from '../format/event-hash.js';
import { verifyConsistency } from '../format/merkle.js';
import { NoteError, type NoteVerifier, openNote, parseNote, signatureLine } from '../format/signed-note.js';
import { type AddCheckpointRequest, MalformedRequest, parseAddCheckpoint, SIZE_TYPE } from './add-checkpoint.js';
import { cosign, type WitnessSigner } from './cosignature.js';
import type { WitnessState } from './witness-state.js';

export interface WitnessAnswer {
  status: 200 | 400 | 403 | 404 | 409 | 422;
  contentType: string;
  body: string;
  /** Of which log the request was; null when it didn't say. */
  origin: string | null;
}

const TEXT = 'text/plain; charset=utf-8';
const EMPTY_ROOT = sha256();

/** Verifier keys of the logs that are witnessed; the name of a key is its log's origin. */
export type KnownLogs = () => Promise<readonly NoteVerifier[]>;

/**
 * Cosigns a log's checkpoint when all that it cosigned of this log before is contained in it; never two that contradict
 * each other. Which statuses it answers with is said by https://c2sp.org/tlog-witness.
 */
export class Witness {
  private readonly turns = new Map<string, Promise<unknown>>();

  constructor(
    private readonly signer: WitnessSigner,
    private readonly logs: KnownLogs,
    private readonly state: WitnessState,
    /** Milliseconds. */
    private readonly now: () => number = Date.now,
  ) {}

  async addCheckpoint(body: string): Promise<WitnessAnswer> {
    let origin: string | null = null;
    try {
      const request = parseAddCheckpoint(body);
      const { text } = parseNote(request.note);
      const checkpoint = parseCheckpoint(text);
      origin = checkpoint.origin;
      const keys = (await this.logs()).filter(({ name }) => name === origin);
      if (keys.length === 0) return answer(404, 'this witness does not know the log', origin);
      const verified = verifiedNote(request.note, keys);
      if (verified === null) return answer(403, "no right signature by the log's key", origin);
      return await this.inTurn(checkpoint.origin, () => this.judge(request, checkpoint, verified));
    } catch (error) {
      const isMalformed =
        error instanceof MalformedRequest || error instanceof NoteError || error instanceof CheckpointError;
      if (!isMalformed) throw error;
      return answer(400, error.message, origin);
    }
  }

  /** @returns the latest cosigned checkpoint of the log whose origin has this SHA-256, in hex; null for none */
  latest(originHash: string): Promise<string | null> {
    return this.state.readByHash(originHash);
  }

  private async judge(
    { oldSize, proof }: AddCheckpointRequest,
    checkpoint: Checkpoint,
    verified: string,
  ): Promise<WitnessAnswer> {
    const { origin, size, root } = checkpoint;
    if (oldSize > size) return answer(400, 'the old size is more than that of the checkpoint', origin);
    const known = await this.state.read(origin);
    if ((known?.size ?? 0) !== oldSize) {
      return { status: 409, contentType: SIZE_TYPE, body: `${known?.size ?? 0}\n`, origin };
    }
    if (size === 0 && !root.equals(EMPTY_ROOT)) return answer(422, 'the root is not that of an empty tree', origin);
    const isConsistent = known && oldSize > 0 ? contains(known, checkpoint, proof) : proof.length === 0;
    if (!isConsistent) return answer(422, `the checkpoint is not consistent with that of ${oldSize} leaves`, origin);
    const { text } = parseNote(verified);
    const line = cosign(text, this.signer, Math.floor(this.now() / 1000));
    await this.state.write(origin, verified + line);
    return { status: 200, contentType: TEXT, body: line, origin };
  }

  /** One request at a time for each log: what was compared is still so when it is replaced. */
  private inTurn<T>(origin: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.turns.get(origin) ?? Promise.resolve()).then(work, work);
    this.turns.set(origin, turn);
    const clear = (): void => {
      if (this.turns.get(origin) === turn) this.turns.delete(origin);
    };
    turn.then(clear, clear);
    return turn;
  }
}

function contains(known: Checkpoint, { size, root }: Checkpoint, proof: readonly Buffer[]): boolean {
  return verifyConsistency(known.size, known.root, size, root, proof);
}

/** The note with the signatures that were checked, and no others; null when there is none, or a known key's is wrong. */
function verifiedNote(note: string, keys: readonly NoteVerifier[]): string | null {
  const { text, signatures } = parseNote(note);
  try {
    const { signedBy } = openNote(note, keys);
    const lines = signatures
      .filter(({ name, id }) => signedBy.some((key) => key.name === name && key.keyId.equals(id)))
      .map(({ name, id, signature }) => signatureLine(name, Buffer.concat([id, signature])));
    return `${text}\n${lines.join('')}`;
  } catch (error) {
    if (error instanceof NoteError) return null;
    throw error;
  }
}

function answer(status: WitnessAnswer['status'], message: string, origin: string | null): WitnessAnswer {
  return { status, contentType: TEXT, body: `${message}\n`, origin };
}
