import { mkdir, open, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isSystemError } from '../../common/system-error.js';
import { type Checkpoint, CheckpointError, parseCheckpoint } from '../format/checkpoint.js';
import { sha256 } from '../format/event-hash.js';
import { NoteError, parseNote } from '../format/signed-note.js';
import { writeAtomically } from '../../common/write-atomically.js';
import { cosignaturesOn, type WitnessKey } from './cosignature.js';

const LOCK = 'lock';

/** A file of the folder can't be read as what this witness wrote. Taking it for nothing would make a fork possible. */
export class DamagedState extends Error {
  override readonly name = 'DamagedState';
}

/** SHA-256 of a log's origin in hex, by which tlog-witness names it in addresses. */
export function originHash(origin: string): string {
  return sha256(Buffer.from(origin)).toString('hex');
}

/**
 * What a witness remembers: a file for each log with the last checkpoint that it cosigned, `<SHA-256 of the origin in
 * hex>.checkpoint`. Each is replaced at once and on the disk before the witness answers. The folder belongs to one process.
 */
export class WitnessState {
  private constructor(
    private readonly path: string,
    private readonly key: WitnessKey,
  ) {}

  /**
   * @param key the witness's own: what it didn't sign is not its memory
   * @throws Error when another process holds the folder
   */
  static async open(path: string, key: WitnessKey): Promise<WitnessState> {
    await mkdir(path, { recursive: true });
    await takeLock(join(path, LOCK));
    return new WitnessState(path, key);
  }

  async close(): Promise<void> {
    await unlink(join(this.path, LOCK));
  }

  /**
   * @returns the checkpoint that was cosigned last; null when there is none
   * @throws DamagedState
   */
  async read(origin: string): Promise<Checkpoint | null> {
    const note = await this.readByHash(originHash(origin));
    if (note === null) return null;
    try {
      const checkpoint = parseCheckpoint(parseNote(note).text);
      if (cosignaturesOn(note, [this.key]).length === 1 && checkpoint.origin === origin) return checkpoint;
    } catch (error) {
      if (!(error instanceof NoteError || error instanceof CheckpointError)) throw error;
    }
    throw new DamagedState(
      `${this.fileOf(originHash(origin))} is not a checkpoint of ${origin} that this witness cosigned. Bring it back from a copy; without it nobody can tell what was cosigned.`,
    );
  }

  async readByHash(hash: string): Promise<string | null> {
    try {
      return await readFile(this.fileOf(hash), 'utf8');
    } catch (error) {
      if (isSystemError(error, 'ENOENT')) return null;
      throw error;
    }
  }

  /** @param note with the cosignature */
  write(origin: string, note: string): Promise<void> {
    return writeAtomically(this.fileOf(originHash(origin)), note, 0o644);
  }

  private fileOf(hash: string): string {
    return join(this.path, `${hash}.checkpoint`);
  }
}

/** Two processes on one folder could each cosign what the other one would refuse. */
async function takeLock(file: string): Promise<void> {
  try {
    const handle = await open(file, 'wx');
    await handle.writeFile(`${process.pid}\n`);
    await handle.close();
  } catch (error) {
    if (!isSystemError(error, 'EEXIST')) throw error;
    const holder = Number(await readFile(file, 'utf8'));
    if (isRunning(holder)) {
      throw new Error(`The witness with the process id ${holder} uses this folder (${file}). Stop it first.`, {
        cause: error,
      });
    }
    await unlink(file);
    await takeLock(file);
  }
}

function isRunning(pid: number): boolean {
  // A container's processes have the same ids after each start: one's own is that of a predecessor.
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error, 'EPERM');
  }
}
