import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isSystemError } from '../../common/system-error.js';
import { parseCheckpoint } from '../format/checkpoint.js';
import { parseNote } from '../format/signed-note.js';
import { PublishedLost } from './seal-refused.js';
import { createAtomically, writeAtomically } from '../../common/write-atomically.js';

/** A signed note as it lies in the folder, with the cosignatures of witnesses behind. */
export interface PublishedNote {
  /** Of the log's name, from 1; one more after each restore. */
  generation: number;
  size: number;
  note: string;
}

/** Files of one folder at most, so that a long log stays quick to look through. */
const FILES = 10_000;

/**
 * Where checkpoints are published: `<tenant>/<generation>/<size div 10000>/<size>`, a file each, all of which stay; beside
 * them `<tenant>/<generation>/latest`, a copy of the newest. What lies here is what betrays a database that was cut,
 * restored or rewritten, so keep it, or a copy of it, out of the reach of whoever runs the database.
 */
export class CheckpointDirectory {
  /** The largest of each tenant that this process has seen: fewer are no longer believed. */
  private readonly marks = new Map<number, PublishedNote>();

  constructor(readonly path: string) {}

  fileOf(tenantId: number, { generation, size }: Omit<PublishedNote, 'note'>): string {
    return join(this.path, `${tenantId}`, `${generation}`, `${Math.floor(size / FILES)}`, `${size}`);
  }

  /** @returns the largest note; null when none was published */
  async read(tenantId: number): Promise<string | null> {
    return (await this.last(tenantId))?.note ?? null;
  }

  /**
   * The largest published note: the mark that a log never goes below. Null when none was ever published.
   *
   * @throws PublishedLost when there was a larger one, or it can't be read
   */
  async last(tenantId: number): Promise<PublishedNote | null> {
    const mark = this.marks.get(tenantId);
    const generation = (await numbersIn(join(this.path, `${tenantId}`))).at(-1);
    const isAsSeen =
      mark !== undefined && mark.generation === generation && (await this.latest(tenantId, generation)) === mark.note;
    if (isAsSeen) return mark;
    const found = generation === undefined ? null : await this.largest(tenantId, generation);
    if (mark && isBelow(found, mark))
      throw new PublishedLost(
        `tenant ${tenantId}: the checkpoint of ${mark.size} leaves was published in ${this.fileOf(tenantId, mark)}, and is gone. Bring it back from a copy; find out who removed it.`,
      );
    if (found) this.marks.set(tenantId, found);
    return found;
  }

  /** Every note of a tenant, oldest first. For whoever compares them with the log. */
  async *notes(tenantId: number): AsyncGenerator<PublishedNote, void> {
    for (const generation of await numbersIn(join(this.path, `${tenantId}`))) {
      const folder = join(this.path, `${tenantId}`, `${generation}`);
      for (const part of await numbersIn(folder))
        for (const size of await numbersIn(join(folder, `${part}`))) yield this.open(tenantId, { generation, size });
    }
  }

  /** Tenants of whom anything was published. */
  tenants(): Promise<number[]> {
    return numbersIn(this.path);
  }

  /**
   * Adds a note. One that is there is never replaced.
   *
   * @throws PublishedLost when another note of this size is there
   */
  async publish(tenantId: number, published: PublishedNote): Promise<void> {
    const file = this.fileOf(tenantId, published);
    try {
      await createAtomically(file, published.note, 0o444);
    } catch (error) {
      if (!isSystemError(error, 'EEXIST')) throw error;
      const { note } = await this.open(tenantId, published);
      if (parseNote(note).text !== parseNote(published.note).text)
        throw new PublishedLost(`tenant ${tenantId}: another checkpoint of ${published.size} leaves is in ${file}`, {
          cause: error,
        });
    }
    await writeAtomically(this.latestFile(tenantId, published.generation), published.note, 0o644);
    if (isBelow(this.marks.get(tenantId) ?? null, published)) this.marks.set(tenantId, published);
  }

  /** The largest of a generation. A crash leaves an empty folder at most, or a newest file that `latest` doesn't tell of. */
  private async largest(tenantId: number, generation: number): Promise<PublishedNote | null> {
    const folder = join(this.path, `${tenantId}`, `${generation}`);
    const latest = await this.latest(tenantId, generation);
    let found: PublishedNote | null = null;
    for (const part of (await numbersIn(folder)).toReversed()) {
      const size = (await numbersIn(join(folder, `${part}`))).at(-1);
      if (size === undefined) continue;
      found = await this.open(tenantId, { generation, size });
      break;
    }
    const told = latest === null ? -1 : sizeOf(latest, this.latestFile(tenantId, generation));
    if (told > (found?.size ?? -1))
      throw new PublishedLost(
        `tenant ${tenantId}: ${this.latestFile(tenantId, generation)} is of ${told} leaves, and ${this.fileOf(tenantId, { generation, size: told })} is gone. Bring it back from a copy; find out who removed it.`,
      );
    return found;
  }

  private async open(tenantId: number, place: Omit<PublishedNote, 'note'>): Promise<PublishedNote> {
    const file = this.fileOf(tenantId, place);
    const note = await readFile(file, 'utf8');
    if (sizeOf(note, file) !== place.size) throw new PublishedLost(`${file} is not the checkpoint that its name says`);
    return { generation: place.generation, size: place.size, note };
  }

  private latestFile(tenantId: number, generation: number): string {
    return join(this.path, `${tenantId}`, `${generation}`, 'latest');
  }

  private async latest(tenantId: number, generation: number): Promise<string | null> {
    try {
      return await readFile(this.latestFile(tenantId, generation), 'utf8');
    } catch (error) {
      if (isSystemError(error, 'ENOENT')) return null;
      throw error;
    }
  }
}

function isBelow(one: PublishedNote | null, other: PublishedNote): boolean {
  if (!one || one.generation !== other.generation) return (one?.generation ?? 0) < other.generation;
  return one.size < other.size;
}

function sizeOf(note: string, file: string): number {
  try {
    return parseCheckpoint(parseNote(note).text).size;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new PublishedLost(`${file} can't be read: ${reason}. Bring it back from a copy.`, { cause });
  }
}

/** Names in a folder that are whole numbers, in their order; none where there is no folder. */
async function numbersIn(folder: string): Promise<number[]> {
  try {
    const names = await readdir(folder);
    return names
      .filter((name) => /^(0|[1-9]\d{0,15})$/.test(name))
      .map(Number)
      .toSorted((one, other) => one - other);
  } catch (error) {
    if (isSystemError(error, 'ENOENT')) return [];
    throw error;
  }
}
