import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isSystemError } from '../../common/system-error.js';

/**
 * Where checkpoints are published: one file a tenant, `tenant-<id>.checkpoint`. What lies here is what betrays a
 * database that was cut or restored, so keep it, or a copy of it, out of the reach of whoever runs the database.
 */
export class CheckpointDirectory {
  constructor(readonly path: string) {}

  fileOf(tenantId: number): string {
    return join(this.path, `tenant-${tenantId}.checkpoint`);
  }

  /** @returns the note; null when none was published */
  async read(tenantId: number): Promise<string | null> {
    try {
      return await readFile(this.fileOf(tenantId), 'utf8');
    } catch (error) {
      if (isSystemError(error, 'ENOENT')) return null;
      throw error;
    }
  }

  /** Replaces the file at once: a reader, or a start after a crash, finds the old note or the new one. */
  async publish(tenantId: number, note: string): Promise<void> {
    await writeAtomically(this.fileOf(tenantId), note, 0o644);
  }
}

/** Writes beside the file, brings it to the disk, and gives it its name only then. */
export async function writeAtomically(file: string, text: string, mode: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}.tmp`;
  const handle = await open(temporary, 'w', mode);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  const folder = await open(dirname(file), 'r');
  await folder.sync().finally(() => folder.close());
}
