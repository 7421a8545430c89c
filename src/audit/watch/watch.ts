import { readFile, stat } from 'node:fs/promises';
import { isSystemError } from '../../common/system-error.js';
import { type Checkpoint, CheckpointError, parseCheckpoint } from '../format/checkpoint.js';
import { verifyConsistency } from '../format/merkle.js';
import { NoteError, type NoteVerifier, openNote, UnknownSignerError } from '../format/signed-note.js';
import { writeAtomically } from '../../common/write-atomically.js';
import { BadTile } from '../tiles/tile-source.js';
import { cosignaturesOn, type WitnessKey } from '../witness/cosignature.js';
import { NoAnswer, type WatchedLog } from './watched-log.js';

/**
 * What a monitor shouts. `INCONSISTENT` and `SIZE_BELOW_CHECKPOINT`: the log is not the one that it was; the kept note and
 * the new one together prove it. `STOPPED`: it has not grown for too long. `UNREADABLE`: there is no answer, or none to judge.
 */
export type AlarmCode =
  | 'INCONSISTENT'
  | 'SIZE_BELOW_CHECKPOINT'
  | 'BAD_SIGNATURE'
  | 'UNKNOWN_KEY'
  | 'NOT_WITNESSED'
  | 'STOPPED'
  | 'UNREADABLE';

export class Alarm extends Error {
  override readonly name = 'Alarm';

  constructor(
    readonly code: AlarmCode,
    message: string,
    /** The note that was given, where it is evidence. */
    readonly note: string | null = null,
  ) {
    super(message);
  }
}

export interface WatchSettings {
  log: WatchedLog;
  /** Keys of the log; their name is its origin. */
  keys: readonly NoteVerifier[];
  witnesses: readonly WitnessKey[];
  /** How many of the witnesses must have cosigned. */
  quorum: number;
  /** File of the largest checkpoint seen so far, which the monitor writes. */
  noteFile: string;
  /** Milliseconds without a larger checkpoint; null for any time. */
  stoppedAfter: number | null;
  /** Milliseconds since 1970. */
  now?: () => number;
}

export interface Look {
  origin: string;
  size: number;
  /** Size of the note that was kept; null when there was none. */
  before: number | null;
}

/** A monitor of one log: it keeps the largest checkpoint that it saw, and takes the next only if it contains it. */
export class Watch {
  private readonly now: () => number;

  constructor(private readonly settings: WatchSettings) {
    this.now = settings.now ?? Date.now;
  }

  /**
   * Looks once, and keeps a larger checkpoint.
   *
   * @throws Alarm
   */
  async look(): Promise<Look> {
    const kept = await this.readKept();
    try {
      const look = await this.compare(kept?.checkpoint ?? null);
      if (kept && look.size === look.before) this.requireGrowth(kept.since, `it still has ${look.size} leaves`);
      return look;
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (kept) this.requireGrowth(kept.since, error.message);
      throw new Alarm('UNREADABLE', error.message);
    }
  }

  private async compare(kept: Checkpoint | null): Promise<Look> {
    const { log, noteFile } = this.settings;
    const note = await log.checkpoint();
    const { origin, size, root } = this.open(
      note,
      this.settings.quorum,
      (code, message) => new Alarm(code, message, note),
    );
    const before = kept?.size ?? null;
    if (kept) {
      if (origin !== kept.origin) {
        const what = `the log is called ${origin} now, and was ${kept.origin}: it was restored to an older state. Keep another note for it`;
        throw new Alarm('INCONSISTENT', what, note);
      }
      if (size < kept.size) {
        throw new Alarm('SIZE_BELOW_CHECKPOINT', `${origin} has ${size} leaves now, and had ${kept.size}`, note);
      }
      if (size === kept.size && !root.equals(kept.root)) {
        throw new Alarm('INCONSISTENT', `${origin} has other leaves than before, and as many: ${size}`, note);
      }
      if (size > kept.size && !(await this.contains(kept, { origin, size, root }))) {
        const what = `${origin} can't show that its ${size} leaves begin with the ${kept.size} that it had`;
        throw new Alarm('INCONSISTENT', what, note);
      }
    }
    if (size !== before) await writeAtomically(noteFile, note, 0o644);
    return { origin, size, before };
  }

  private async contains(kept: Checkpoint, { size, root }: Checkpoint): Promise<boolean> {
    if (kept.size === 0) return true;
    try {
      const proof = await this.settings.log.consistencyProof(kept.size, size);
      return verifyConsistency(kept.size, kept.root, size, root, proof);
    } catch (error) {
      if (error instanceof BadTile) return false;
      throw error;
    }
  }

  private open(note: string, quorum: number, alarm: (code: AlarmCode, message: string) => Alarm): Checkpoint {
    const { keys, witnesses } = this.settings;
    try {
      const { text, signedBy } = openNote(note, keys);
      const checkpoint = parseCheckpoint(text);
      if (signedBy.every(({ name }) => name !== checkpoint.origin)) {
        throw alarm('UNKNOWN_KEY', `the checkpoint is of ${checkpoint.origin}, whose key was not given`);
      }
      const cosigned = cosignaturesOn(note, witnesses).length;
      if (cosigned < quorum) {
        throw alarm(
          'NOT_WITNESSED',
          `${cosigned} of the known witnesses have cosigned ${checkpoint.size} leaves, not ${quorum}`,
        );
      }
      return checkpoint;
    } catch (error) {
      if (error instanceof UnknownSignerError) {
        throw alarm(
          'UNKNOWN_KEY',
          'no given key signed the checkpoint; after a rotation or a restore give the new one as well',
        );
      }
      if (error instanceof NoteError || error instanceof CheckpointError) throw alarm('BAD_SIGNATURE', error.message);
      throw error;
    }
  }

  private requireGrowth(since: number, what: string): void {
    const { stoppedAfter } = this.settings;
    if (stoppedAfter === null || this.now() - since < stoppedAfter) return;
    throw new Alarm('STOPPED', `no larger checkpoint since ${new Date(since).toISOString()}: ${what}`);
  }

  /** What was kept is opened like what comes: a file that somebody exchanged is no memory. */
  private async readKept(): Promise<{ checkpoint: Checkpoint; since: number } | null> {
    const { noteFile } = this.settings;
    try {
      const note = await readFile(noteFile, 'utf8');
      const checkpoint = this.open(
        note,
        0,
        (_code, message) => new Alarm('UNREADABLE', `the kept checkpoint in ${noteFile} can't be used: ${message}`),
      );
      return { checkpoint, since: (await stat(noteFile)).mtimeMs };
    } catch (error) {
      if (isSystemError(error, 'ENOENT')) return null;
      throw error;
    }
  }
}
